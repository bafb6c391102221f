"""How a run ended is the first thing that is said about it, whoever says it."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from ramledger.diagnose.verdict import diagnose
from ramledger.events import Event, Header, PressureEvent
from ramledger.ledger import Limit
from ramledger.report.html.page_data import page_data
from ramledger.report.json.run_document import run_document
from ramledger.report.terminal.diagnosis_text import print_comparison, print_diagnosis
from ramledger.report.terminal.run_text import print_overview
from ramledger.run.ending import UNATTRIBUTED, How, ending_of
from ramledger.run.model import Run
from tests.support.report_events import (
    MIB,
    PID,
    generation,
    process,
    process_end,
    recorded,
    run_end,
    sample,
    snapshot,
    statement,
)

HEADER = Header(command=("python", "t.py"), limit=Limit(150 * MIB, "cgroup limit of /job"))
STOP = PressureEvent(t=39.0, usage_bytes=140 * MIB, limit_bytes=150 * MIB, action="stop")


def steady_run(*last: Event) -> Run:
    """Forty seconds without a leak; 149 MiB in its control group at the end."""
    events: list[Event] = [process(PID, "python t.py")]
    for i in range(40):
        events.append(sample(i + 0.5, {PID: 100 * MIB}, cgroup_bytes=(110 + i) * MIB))
        events.append(generation(float(i + 1), i, 100 * MIB))
    for t, size in ((10.0, 20), (30.0, 60)):
        accounts = {"variables/t.py:HELD": size * MIB, "libraries/x": 5 * MIB}
        document = statement(accounts, rss_bytes=100 * MIB)
        events.append(snapshot(t, document, generation=int(t)))
    return recorded([*events, *last], HEADER)


def end(**more: Any) -> Event:
    return run_end(41.0, **{"exit_code": None, **more})


KILLED = end(signal=9, killed_by_kernel=True)

ENDINGS = [
    ((end(exit_code=0),), How.FINISHED, "ended after 41 s"),
    ((end(exit_code=3),), How.FAILED, "ended after 41 s with exit code 3"),
    ((end(signal=15),), How.SIGNALED, "was ended by SIGTERM after 41 s"),
    ((end(signal=9),), How.SIGNALED,
     "was ended by SIGKILL after 41 s, at 149.0 MiB of 150.0 MiB; nothing shows that it was for "
     "memory"),
    ((KILLED,), How.KILLED_BY_KERNEL,
     "was killed by the kernel for memory after 41 s, at 149.0 MiB of 150.0 MiB; what grew last: "
     "variables/t.py:HELD, +40.0 MiB in 20 s"),
    ((STOP, end(signal=15)), How.STOPPED_AT_LIMIT,
     "was stopped early after 41 s, since the limit was about to be reached: 140.0 MiB of "
     "150.0 MiB used"),
    ((STOP, end(exit_code=0)), How.STOPPED_AT_LIMIT,
     "was stopped early after 41 s, since the limit was about to be reached: 140.0 MiB of "
     "150.0 MiB used"),
    ((replace(STOP, action="warn"), end(exit_code=0)), How.FINISHED, "ended after 41 s"),
    ((), How.NOT_RECORDED, "was recorded for 40 s; the recording stops here"),
]  # fmt: skip


@pytest.mark.parametrize(("last", "how", "text"), ENDINGS, ids=lambda value: str(value)[-40:])
def test_all_say_the_same(last: tuple[Event, ...], how: How, text: str) -> None:
    run = steady_run(*last)
    found = ending_of(run)
    assert (found.how, found.text) == (how, text)
    assert run_document(run, "x")["ended"] == found.to_dict()
    document = diagnose(run).to_dict()
    assert document["ended"] == found.to_dict()
    page = page_data(run, diagnose(run))
    assert page["ended"] == text
    assert page["died"] == (how not in (How.FINISHED, How.NOT_RECORDED))


def printed(run: Run) -> tuple[str, str]:
    """What `diagnose` and `report --terminal` print, on lines that do not wrap."""
    first, second = io.StringIO(), io.StringIO()
    found = diagnose(run)
    print_diagnosis(found, Console(file=first, width=400))
    print_overview(run, found, Console(file=second, width=400))
    return first.getvalue(), second.getvalue()


@pytest.mark.parametrize(("last", "how", "text"), ENDINGS, ids=lambda value: str(value)[-40:])
def test_it_is_the_first_sentence(last: tuple[Event, ...], how: How, text: str) -> None:
    verdict, overview = (shown.splitlines()[0] for shown in printed(steady_run(*last)))
    assert verdict.startswith("healthy" if how is How.FINISHED else f"the run {text}")
    assert text in overview


def test_a_run_that_died_for_memory_is_not_called_healthy() -> None:
    shown, _ = printed(steady_run(KILLED))
    assert shown.splitlines()[1].startswith("no leak found")
    assert "healthy" not in shown
    out = io.StringIO()
    before, after = diagnose(steady_run(KILLED)), diagnose(steady_run(end(exit_code=0)))
    print_comparison(("after", after), ("before", before), Console(file=out, width=400))
    assert "was killed by the kernel for memory" in out.getvalue()


def test_a_worker_that_was_killed_is_the_one_that_is_looked_at() -> None:
    worker = PID + 1
    snapshots = []
    for t, size in ((20.0, 20), (30.0, 50)):
        document = statement({"variables/worker.py:CACHE": size * MIB}, rss_bytes=60 * MIB)
        snapshots.append(snapshot(t, document, generation=1, pid=worker))
    run = steady_run(
        process(worker, "python worker.py", PID),
        *snapshots,
        *(
            sample(29.6 + i, {PID: 100 * MIB, worker: 60 * MIB}, tree_bytes=100 * MIB)
            for i in range(11)
        ),
        process_end(40.5, worker),
        end(exit_code=1, killed_by_kernel=True),
    )
    found = ending_of(run)
    assert found.grew_last is not None
    assert found.grew_last[:2] == ("variables/worker.py:CACHE", 30 * MIB)


def test_what_grew_after_the_last_snapshot_is_not_blamed_on_what_grew_before() -> None:
    run = steady_run(sample(40.8, {PID: 400 * MIB}), KILLED)
    grown = ending_of(run).grew_last
    assert grown is not None
    assert grown[:2] == (UNATTRIBUTED, 300 * MIB)


def test_a_control_groups_count_that_is_old_is_no_less_than_what_processes_hold() -> None:
    run = steady_run(sample(40.8, {PID: 145 * MIB}, cgroup_bytes=30 * MIB), KILLED)
    assert ending_of(run).used_bytes == 145 * MIB


def test_a_kill_that_nobody_saw_coming_is_still_told() -> None:
    run = recorded([KILLED], Header())
    assert ending_of(run).text == "was killed by the kernel for memory after 41 s"
