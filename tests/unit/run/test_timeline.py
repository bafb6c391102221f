"""Series read off recordings: what counts as a point, a child, a variable."""

from dataclasses import replace

from ramledger.event_parts import ProcessMemory
from ramledger.events import ProcessEvent, ProgramEndEvent, ReleaseProbeEvent
from ramledger.run.timeline import build_timeline
from tests.support.made_up_recordings import MIB, PID, generations, recording, sample, snapshot


def test_the_generation_measured_at_exit_is_left_out() -> None:
    *events, last = generations([100.0] * 8)
    final = replace(last, is_final=True)
    assert len(build_timeline(recording(*events, final)).points) == 7


def test_few_generations_are_replaced_by_stretches_of_time_after_the_first() -> None:
    samples = [sample(i / 10, {PID: i}) for i in range(40)]
    timeline = build_timeline(recording(*generations([100.0] * 3), *samples))
    assert not timeline.by_generation
    assert len(timeline.points) == 30
    assert len(timeline.few_generations) == 3


def test_pages_that_a_fork_shares_with_its_parent_are_not_its_own() -> None:
    child = ProcessEvent(t=0.1, pid=8, inherited_bytes=100 * MIB)
    samples = [sample(i + 0.5, {PID: 100, 8: 100 + i}) for i in range(10)]
    points = build_timeline(recording(child, *generations([100.0] * 9), *samples)).points
    assert [p.children_bytes for p in points] == [i * MIB for i in range(1, 10)]


def test_forks_that_are_too_many_to_be_listed_count_with_what_is_their_own() -> None:
    samples = [
        sample(
            i + 0.5,
            {PID: 100},
            other_processes=ProcessMemory((20 * 100 + i) * MIB, threads=20),
            other_inherited_bytes=2000 * MIB,
        )
        for i in range(10)
    ]
    points = build_timeline(recording(*generations([100.0] * 9), *samples)).points
    assert [p.children_bytes for p in points] == [i * MIB for i in range(1, 10)]


def test_snapshots_after_the_last_line_are_not_taken_for_the_run() -> None:
    bye = ProgramEndEvent(t=10.5, pid=PID)
    snapshots = [snapshot(4, {}), snapshot(11, {})]
    timeline = build_timeline(recording(*generations([100.0] * 9), bye, *snapshots))
    assert [s.generation for s in timeline.snapshots] == [4]


def test_a_loop_that_cleans_up_is_no_part_of_the_training() -> None:
    events = generations([100.0] * 14, origin="inferred")
    last = events[-1].t
    tidy = [
        replace(event, t=last + 0.05 * (i + 1), generation=14 + i)
        for i, event in enumerate(generations([10.0] * 4, origin="inferred"))
    ]
    assert len(build_timeline(recording(*events, *tidy)).points) == 14


def test_generations_of_a_framework_end_where_the_loop_around_them_is_known() -> None:
    own = generations([100.0] * 8, origin="framework")
    outer = [
        replace(event, t=event.t + 20, origin="inferred") for event in generations([200.0] * 6)
    ]
    points = build_timeline(recording(*own, *outer)).points
    assert [point.generation for point in points] == [0, 1, 2, 3, 4, 5]
    assert {point.anon_bytes for point in points} == {200 * MIB}


def test_numbers_that_start_again_with_every_trial_go_on() -> None:
    trials = [
        replace(event, t=event.t + 10 * trial)
        for trial in range(3)
        for event in generations([100.0 + trial] * 4)
    ]
    points = build_timeline(recording(*trials)).points
    assert [point.generation for point in points] == list(range(12))
    assert points[-1].anon_bytes == 102 * MIB


def test_a_probe_of_the_living_program_counts_more_than_that_at_its_exit() -> None:
    def probe(t: float, *, is_live: bool) -> ReleaseProbeEvent:
        return ReleaseProbeEvent(
            t=t, pid=PID, after_collect_bytes=0, after_trim_bytes=0, is_live=is_live
        )

    live, at_exit = probe(3.0, is_live=True), probe(9.0, is_live=False)
    timeline = build_timeline(recording(*generations([100.0] * 6), live, at_exit))
    assert timeline.release_probe is live


def test_a_class_that_is_listed_late_is_known_from_the_first_snapshot_on() -> None:
    first = snapshot(0, {})
    later = snapshot(
        4, {}, live_objects={"figure.Figure": 5}, first_live_objects={"figure.Figure": 1}
    )
    timeline = build_timeline(recording(*generations([100.0] * 8), first, later))
    assert [s.live_objects.get("figure.Figure") for s in timeline.snapshots] == [1, 5]
