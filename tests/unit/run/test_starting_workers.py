"""Workers that are still starting become like those that have started."""

import pytest

from ramledger.event_parts import ProcessMemory
from ramledger.events import ProcessEvent, SampleEvent
from ramledger.run.processes import Processes
from ramledger.run.starting_workers import bytes_to_come

MIB = 1 << 20
MAIN, PARENT = 1, 2


def started(count: int) -> Processes:
    found = Processes()
    found.started(ProcessEvent(t=0.0, pid=MAIN, command="python train.py", has_agent=True))
    for pid in range(10, 10 + count):
        found.started(
            ProcessEvent(t=0.0, pid=pid, parent_pid=PARENT, command="worker", is_worker=True)
        )
    return found


def sampled(processes: Processes, t: float, **sizes: int) -> None:
    rows = {int(name[1:]): ProcessMemory(anon_bytes=size * MIB) for name, size in sizes.items()}
    processes.sampled(SampleEvent(t=t, processes=rows), t)


def test_they_become_as_large_as_the_largest() -> None:
    processes = started(3)
    for t in range(0, 40, 2):
        sampled(processes, float(t), p1=170, p10=min(80, 20 * t), p11=min(80, 10 * t), p12=t)
    assert bytes_to_come(processes, MAIN, None, 38.0, has_begun=True) == (80 - 38) * MIB


def test_while_all_of_them_start_they_become_what_started_them() -> None:
    processes = started(2)
    for t in range(0, 10):
        sampled(processes, float(t), p1=170)
    for t in range(10, 18):
        sampled(processes, float(t), p1=170, p10=6 * (t - 9), p11=5 * (t - 9))
    assert (
        bytes_to_come(processes, MAIN, None, 17.0, has_begun=False) == (170 - 48 + 170 - 40) * MIB
    )


def test_of_those_that_are_not_listed_the_sum_is_known() -> None:
    processes = started(4)
    for t in range(0, 40, 2):
        sampled(processes, float(t), p1=50, p10=min(80, 20 * t), p11=2 * t)
    others = ProcessMemory(anon_bytes=100 * MIB)
    assert (
        bytes_to_come(processes, MAIN, others, 38.0, has_begun=True)
        == (80 - 76 + 2 * 80 - 100) * MIB
    )


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_is_to_come_where_nothing_grows(count: int) -> None:
    processes = started(count)
    for t in range(60):
        sampled(processes, float(t), p1=170, p10=40, **({"p11": 20} if count > 1 else {}))
    assert bytes_to_come(processes, MAIN, None, 59.0, has_begun=False) == 0
