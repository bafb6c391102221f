"""Counting live objects copies no long container as a whole: peaks of this process."""

import pytest

from ramledger.objects.census.live_objects import count_live_objects

MIB = 1 << 20


def status_bytes(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


@pytest.mark.parametrize(("containers", "length"), [(2_000, 5_000), (1, 10_000_000)])
def test_long_containers_are_not_copied_all_at_once(containers: int, length: int) -> None:
    """Ten million references, 80 MiB of them: looked through in parts."""
    row = [None] * length
    kept = [list(row) for _ in range(containers)]
    count_live_objects()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status_bytes("VmRSS:")
    count_live_objects()
    assert status_bytes("VmHWM:") - before < 25 * MIB
    del kept
