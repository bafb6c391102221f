"""What comes after the training is in no series, no peak, no growth and no expectation."""

from dataclasses import replace

from ramledger.event_parts import ProcessMemory, RunSettings
from ramledger.events import (
    Event,
    ExpectationEvent,
    GenerationEvent,
    Header,
    IterationsEvent,
    PhaseEvent,
    ProcessEvent,
    ProgramEndEvent,
    SampleEvent,
    SnapshotEvent,
)
from ramledger.run.model import Run
from ramledger.run.timeline import build_timeline
from ramledger.units import MIB
from tests.support.report_events import statement

PID = 7


def process() -> ProcessEvent:
    return ProcessEvent(t=0.0, pid=PID, has_agent=True)


def sample(t: float, size: int) -> SampleEvent:
    return SampleEvent(t=t, processes={PID: ProcessMemory(anon_bytes=size)})


def iteration(number: int, t: float, size: int = 100 * MIB, **more: object) -> GenerationEvent:
    event = GenerationEvent(t=t, pid=PID, generation=number, anon_bytes=size, rss_bytes=size)
    return replace(event, **more)  # type: ignore[arg-type]


def taken(t: float, size: int, **more: object) -> SnapshotEvent:
    event = SnapshotEvent(t=t, pid=PID, statement=statement({}, rss_bytes=size))
    return replace(event, **more)  # type: ignore[arg-type]


def run_of(*events: Event, header: Header | None = None) -> Run:
    run = Run(header, keep_events=True)
    for event in events:
        run.take(event)
    return run


TRAINING = [process(), *(iteration(n, n + 1.0) for n in range(8))]
END = ProgramEndEvent(t=20.0, pid=PID, since_training_seconds=11.0)


def test_snapshots_after_the_training_are_in_no_series() -> None:
    seen = [taken(4, 100 * MIB, generation=3), taken(15, 90 * MIB, phase="plot"),
            taken(20.5, 80 * MIB, phase="end", label="end")]  # fmt: skip
    timeline = build_timeline(run_of(*TRAINING, *seen[:2], END, seen[2]))
    assert [snapshot.t for snapshot in timeline.snapshots] == [4]


def test_a_snapshot_that_was_begun_in_the_training_is_of_it() -> None:
    seen = taken(9.3, 100 * MIB, generation=7, phase="train", cost_seconds=0.5)
    timeline = build_timeline(run_of(*TRAINING, seen, END))
    assert len(timeline.snapshots) == 1


def test_samples_after_the_training_are_in_no_series() -> None:
    samples = [sample(float(t), 100 * MIB) for t in range(1, 20)]
    timeline = build_timeline(run_of(*TRAINING, *samples, END))
    assert timeline.samples[-1][0] == 9.0


def test_the_largest_snapshot_at_the_end_is_not_the_peak() -> None:
    run = run_of(
        *TRAINING, taken(4, 100 * MIB, generation=3), taken(21, 900 * MIB, phase="end", label="end")
    )
    found = run.main_snapshots
    assert found is not None and found.peak is not None
    assert found.peak.t == found.now.t == 4


def test_a_snapshot_at_the_end_that_is_the_only_one_is_no_peak_either() -> None:
    found = run_of(process(), taken(2, 9 * MIB, phase="end", label="end")).main_snapshots
    assert found is not None
    assert found.peak is None
    assert not found.accounts


def test_a_peak_after_the_training_says_so() -> None:
    run = run_of(*TRAINING, sample(5, 100 * MIB), sample(15, 300 * MIB), END)
    assert (run.peak_bytes, run.peak_where) == (300 * MIB, (None, "end"))
    run.take(sample(21, 900 * MIB))  # teardown, and our own last snapshot
    assert run.peak_bytes == 300 * MIB


def test_expectations_of_the_end_are_not_raised() -> None:
    wrong = ExpectationEvent(t=5.0, pid=PID, type="Env", expected=2, found=3, generation=4)
    late = replace(wrong, t=15.0, found=0)
    run = run_of(*TRAINING, wrong, late, END, replace(late, t=20.5, phase="end"))
    assert [event.found for event in run.expectations] == [3]


def test_an_iteration_measured_at_exit_has_the_level_of_its_last_phase() -> None:
    phase = PhaseEvent(t=9.0, pid=PID, name="train", generation=8, after_bytes=101 * MIB)
    final = iteration(8, 20.0, 30 * MIB, is_final=True)
    rows = run_of(*TRAINING, phase, final).iterations.of(PID)
    assert rows[-1].rss_bytes == 101 * MIB
    assert run_of(*TRAINING, final).iterations.of(PID)[-1].generation == 7


def test_what_was_counted_before_a_better_loop_was_found_is_start_up() -> None:
    parsed = [iteration(n, n / 10, 50 * MIB) for n in range(27)]
    early = taken(2.5, 50 * MIB, generation=20)
    anew = IterationsEvent(t=3.0, pid=PID, origin="inferred", counted_by="train.py:main, line 9")
    trained = [iteration(n, 3.0 + n) for n in range(1, 8)]
    late = taken(9.5, 100 * MIB, generation=6)
    run = run_of(process(), *parsed, early, anew, *trained, late)
    assert [row.generation for row in run.iterations.of(PID)] == list(range(1, 8))
    assert [point.generation for point in build_timeline(run).points] == list(range(1, 8))
    assert [event.generation for event in run.of_type(SnapshotEvent)] == [None, 6]
    found = run.main_snapshots
    assert found is not None and found.baseline.t == 9.5
    assert run.counted_by == "train.py:main, line 9"


def test_growth_of_phases_and_between_them_is_that_of_the_process() -> None:
    run = Run()
    for number in range(1, 6):
        run.take(
            PhaseEvent(
                t=number, pid=PID, name="train", generation=number, growth_bytes=900 * MIB,
                net_growth_bytes=40 * MIB, after_bytes=100 * MIB,
            )
        )  # fmt: skip
        net = {"train": -38 * MIB, "": MIB}
        run.take(iteration(number, number, net_growth_bytes=net))
    [train] = run.iterations.phases(PID)
    assert train.growth_bytes == 10 * MIB
    assert run.iterations.between_phases_bytes(PID) == 5 * MIB


def test_the_planned_end_is_that_of_the_last_iteration_or_the_users() -> None:
    told = iteration(3, 3.0, steps=6144, planned_steps=25_000, last_generation=12)
    run = run_of(process(), iteration(2, 2.0), told)
    planned = run.planned
    assert (planned.last_iteration, planned.steps, planned.last_step) == (12, 6144, 25_000)
    header = Header(settings=RunSettings(iterations=14))
    run = run_of(process(), iteration(1, 1.0), told, header=header)
    assert run.planned.last_iteration == 14
