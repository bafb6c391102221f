"""Counting live objects remembers little beside the heap that it counts."""

import numpy as np

from ramledger.objects.process_objects import read_process_objects


class Thing:
    """A class of the user's own, with an array."""

    def __init__(self) -> None:
        self.values = np.zeros(4)


def test_instances_in_a_long_container_are_booked_once() -> None:
    things = [Thing() for _ in range(1_000)]
    accounts = {holding.account for holding in read_process_objects().holdings}
    assert any(account.endswith("():things") for account in accounts)
    assert "variables/<Thing>" not in accounts
    del things
