"""What a run says of its remedies."""

import pytest

from ramledger.event_parts import Plan, PlannedRam, ProcessMemory
from ramledger.events import (
    GenerationEvent,
    Header,
    PlanEvent,
    ProcessEvent,
    RemedyEvent,
    RunEndEvent,
    SampleEvent,
)
from ramledger.report.remedy_report import remedies_document, remedy_lines
from ramledger.run.model import Run

MIB = 1 << 20
PID = 7


def run_of(
    peak: int,
    seconds: float,
    *events: RemedyEvent,
    command: tuple[str, ...] = ("python", "train.py"),
    iterations: int = 5,
    workers: int = 0,
    exit_code: int = 0,
    plan: Plan | None = None,
) -> Run:
    run = Run(Header(command=command), keep_events=True)
    run.take(ProcessEvent(t=0.0, pid=PID, command="python train.py", has_agent=True))
    for number in range(workers):
        run.take(ProcessEvent(t=0.0, pid=PID + 1 + number, parent_pid=PID, is_worker=True))
    run.take(SampleEvent(t=0.1, processes={PID: ProcessMemory(anon_bytes=peak * MIB)}))
    for number in range(iterations):
        run.take(
            GenerationEvent(
                t=number * seconds, pid=PID, generation=number, anon_bytes=peak * MIB, rss_bytes=1
            )
        )
    for event in events:
        run.take(event)
    if plan is not None:
        run.take(PlanEvent(t=0.0, pid=PID, plan=plan))
    run.take(RunEndEvent(t=iterations * seconds, exit_code=exit_code))
    return run


def said(
    text: str, *, name: str = "replay", is_applied: bool = True, saves: int = 0
) -> RemedyEvent:
    return RemedyEvent(
        t=1.0, pid=PID, name=name, text=text, is_applied=is_applied, saves_bytes=saves
    )


def test_nothing_is_said_without_remedies() -> None:
    run = run_of(100, 1.0)
    assert remedy_lines(run) == []
    assert remedies_document(run) is None


def test_what_was_done_and_what_was_left() -> None:
    run = run_of(
        100, 1.0, said("stored once", saves=5 * MIB), said("stored once"),
        said("Own stays", is_applied=False), said("no server", name="workers", is_applied=False),
    )  # fmt: skip
    assert remedy_lines(run) == [
        "replay: stored once, promised 5.0 MiB; not applied: Own stays",
        "workers (not applied): no server",
    ]
    document = remedies_document(run)
    assert document is not None
    assert document["applied"] == [
        {"name": "replay", "text": "stored once", "saves_bytes": 5 * MIB}
    ]
    assert document["left"][0] == {"name": "replay", "text": "Own stays"}


def test_a_saving_is_measured_against_an_earlier_run() -> None:
    after = run_of(50, 0.5, said("stored once"), iterations=20)
    lines = remedy_lines(after, run_of(100, 1.0, iterations=20))
    assert lines == [
        "replay: stored once, saved 50.0 MiB",
        "measured: peak 100.0 MiB → 50.0 MiB, 50% less than the earlier run",
        "measured: 1 → 2 iterations a second (+100%)",
    ]


def test_what_did_not_pay_is_said() -> None:
    rollout = said("not copied", name="rollout")
    lines = remedy_lines(run_of(100, 1.0, rollout), run_of(100, 1.0))
    assert lines[:2] == [
        "rollout: not copied, no saving measured, leave it off",
        "measured: no saving, the peak is 100.0 MiB as in the earlier run",
    ]
    assert "more" in remedy_lines(run_of(120, 1.0, rollout), run_of(100, 1.0))[1]
    document = remedies_document(run_of(100, 1.0, rollout), run_of(100, 1.0))
    assert document is not None and document["each"][0]["pays"] is False


def test_what_found_nothing_to_do_gets_no_credit() -> None:
    asked = said("", name="rollout", is_applied=False)
    assert remedy_lines(run_of(50, 1.0, asked), run_of(100, 1.0)) == [
        "rollout (not applied): nothing here that it applies to",
        "not compared with the earlier run: no remedy did anything in this run",
    ]


def test_a_speed_needs_iterations() -> None:
    lines = remedy_lines(run_of(50, 0.5, said("stored once")), run_of(100, 1.0))
    assert not any("a second" in line for line in lines)


def test_of_two_remedies_only_what_shows_by_itself_is_said() -> None:
    both = said("stored once"), said("not copied", name="rollout")
    lines = remedy_lines(run_of(50, 1.0, *both), run_of(100, 1.0))
    assert lines[:2] == ["replay: stored once", "rollout: not copied"]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (run_of(100, 1.0, command=("python", "train.py", "--big")),
         "it ran another command, python train.py --big"),
        (run_of(100, 1.0, iterations=9), "it made 9 iterations, this run 5"),
        (run_of(100, 1.0, iterations=4), "it made 4 iterations, this run 5"),
        (run_of(100, 1.0, workers=2), "it had 2 worker processes, this run 0"),
        (run_of(100, 1.0, exit_code=1), "it ended after 5 s with exit code 1"),
        (run_of(100, 1.0, said("stored once")), "remedies were in force there, too: replay"),
    ],
    ids=["command", "more", "fewer", "workers", "failed", "remedied"],
)  # fmt: skip
def test_runs_that_differ_in_more_are_not_compared(other: Run, why: str) -> None:
    run = run_of(50, 1.0, said("stored once"))
    assert remedy_lines(run, other) == [
        "replay: stored once", f"not compared with the earlier run: {why}"
    ]  # fmt: skip
    document = remedies_document(run, other)
    assert document is not None
    assert document["against"]["saved_bytes"] is None
    assert document["each"][0]["saved_bytes"] is None


def test_the_place_of_the_interpreter_does_not_matter() -> None:
    other = run_of(100, 1.0, command=("/opt/venv/bin/python", "train.py"))
    assert "measured" in remedy_lines(run_of(50, 1.0, said("once")), other)[1]


def plan_of(size: int) -> Plan:
    return Plan(PlannedRam(size * MIB, size * MIB, size * MIB))


def test_without_an_earlier_run_the_plan_is_the_measure() -> None:
    lines = remedy_lines(run_of(50, 1.0, said("once"), plan=plan_of(100)))
    assert lines == [
        "replay: once, saved 50.0 MiB",
        "measured: peak 100.0 MiB → 50.0 MiB, 50% less than the plan",
    ]
    failed = remedy_lines(run_of(50, 1.0, said("once"), plan=plan_of(100), exit_code=1))
    assert failed[1].startswith("not compared with the plan: this run ended")


def test_the_end_of_a_run_is_short() -> None:
    many = [said("did it", name=f"remedy{number}") for number in range(9)]
    lines = remedy_lines(run_of(50, 1.0, *many, iterations=20), run_of(100, 1.0, iterations=20))
    assert len(lines) == 6
    assert lines[3] == "6 more: see --json"
