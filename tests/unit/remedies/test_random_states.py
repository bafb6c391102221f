"""Remedies draw none of the program's random numbers."""

import random

import numpy as np

from ramledger.remedies.random_states import random_numbers_kept


def test_generators_go_on_where_they_were() -> None:
    random.seed(3)
    np.random.seed(3)
    expected = random.random(), np.random.rand()
    random.seed(3)
    np.random.seed(3)
    with random_numbers_kept():
        random.random()
        np.random.rand(5)
    assert (random.random(), np.random.rand()) == expected
