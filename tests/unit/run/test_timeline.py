"""Series read off recordings: what counts as a point, a child, a variable."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.run.timeline import build_timeline
from tests.support.made_up_recordings import MIB, PID, generations, look, recording


def test_the_generation_measured_at_exit_is_left_out() -> None:
    events = generations([100.0] * 8)
    events[-1]["final"] = True
    assert len(build_timeline(recording(*events)).points) == 7


def test_few_generations_are_replaced_by_stretches_of_time() -> None:
    samples = [
        {"event": "sample", "t": i / 10, "processes": {str(PID): [i * MIB, 0, 0, 0, 1]}}
        for i in range(40)
    ]
    timeline = build_timeline(recording(*generations([100.0] * 3), *samples))
    assert not timeline.by_generation
    assert len(timeline.points) == 40


def test_pages_that_a_fork_shares_with_its_parent_are_not_its_own() -> None:
    child = {"event": "process", "pid": 8, "t": 0.1, "inherited_bytes": 100 * MIB}
    samples = [
        {"event": "sample", "t": i + 0.5,
         "processes": {str(PID): [100 * MIB, 0, 0, 0, 1], "8": [(100 + i) * MIB, 0, 0, 0, 1]}}
        for i in range(10)
    ]  # fmt: skip
    points = build_timeline(recording(child, *generations([100.0] * 9), *samples)).points
    assert [p.children for p in points] == [i * MIB for i in range(1, 10)]


def test_forks_that_are_too_many_to_be_listed_count_with_what_is_their_own() -> None:
    samples = [
        {"event": "sample", "t": i + 0.5, "processes": {str(PID): [100 * MIB, 0, 0, 0, 1]},
         "others": [(20 * 100 + i) * MIB, 0, 0, 0, 20], "others_inherited_bytes": 2000 * MIB}
        for i in range(10)
    ]  # fmt: skip
    points = build_timeline(recording(*generations([100.0] * 9), *samples)).points
    assert [p.children for p in points] == [i * MIB for i in range(1, 10)]


def test_a_variable_seen_from_another_function_is_the_same() -> None:
    looks = [
        look(0, {"variables/t.py:run.agent.log": 1}),
        look(4, {"variables/t.py:learn.self.log": 5}),
        look(8, {"variables/t.py:run.agent.log": 9}),
    ]
    timeline = build_timeline(recording(*generations([100.0] * 12), *looks))
    name = "variables/t.py:run.agent.log"
    assert [k.resident(name) for k in timeline.looks] == [1 * MIB, 5 * MIB, 9 * MIB]


def test_a_buffer_is_the_same_beside_a_local_of_its_name() -> None:
    buffer = "variables/t.py:{}.patches"
    looks = [
        look(0, {buffer.format("explore.replay"): (10, 80)}),
        look(3, {buffer.format("sample.self"): (30, 80)}),
        look(6, {buffer.format("train.replay"): (60, 80), buffer.format("train"): (2, 2)}),
        look(9, {buffer.format("explore.replay"): (80, 80)}),
        look(11, {buffer.format("train.replay"): (80, 80), buffer.format("train"): (2, 2)}),
    ]
    timeline = build_timeline(recording(*generations([100.0] * 12), *looks))
    found = [k.resident(buffer.format("train.replay")) for k in timeline.looks]
    assert found == [10 * MIB, 30 * MIB, 60 * MIB, 80 * MIB, 80 * MIB]


def test_looks_after_the_last_line_are_not_taken_for_the_run() -> None:
    bye = {"event": "exit", "pid": PID, "t": 10.5}
    looks = [look(4, {}), look(11, {})]
    timeline = build_timeline(recording(*generations([100.0] * 9), bye, *looks))
    assert [k.label for k in timeline.looks] == ["", "end"]


def test_a_loop_that_cleans_up_is_no_part_of_the_training() -> None:
    events = generations([100.0] * 14, origin="inferred")
    last = float(events[-1]["t"])
    tidy = generations([10.0] * 4, origin="inferred")
    for i, event in enumerate(tidy):
        event["t"], event["generation"] = last + 0.05 * (i + 1), 14 + i
    assert len(build_timeline(recording(*events, *tidy)).points) == 14


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"event": st.sampled_from(["generation", "phase", "snapshot", "sample", "books"]),
             "pid": st.just(PID), "t": st.floats(0, 100)},
            optional={"generation": st.none() | st.integers() | st.text(),
                      "anon_bytes": st.none() | st.integers(0), "processes": st.none(),
                      "statement": st.none(), "containers": st.none()},
        ),
        max_size=20,
    )
)  # fmt: skip
def test_fields_that_are_missing_or_odd_are_no_error(events: list[dict[str, object]]) -> None:
    build_timeline(recording(*events))


def test_generations_of_a_framework_end_where_the_loop_around_them_is_known() -> None:
    own = generations([100.0] * 8, origin="framework")
    outer = [
        {**event, "t": event["t"] + 20, "origin": "inferred"} for event in generations([200.0] * 6)
    ]
    points = build_timeline(recording(*own, *outer)).points
    assert [point.generation for point in points] == [0, 1, 2, 3, 4, 5]
    assert {point.anon for point in points} == {200 * MIB}


def test_numbers_that_start_again_with_every_trial_go_on() -> None:
    trials = [
        {**event, "t": event["t"] + 10 * trial}
        for trial in range(3)
        for event in generations([100.0 + trial] * 4)
    ]
    points = build_timeline(recording(*trials)).points
    assert [point.generation for point in points] == list(range(12))
    assert points[-1].anon == 102 * MIB


def test_a_collector_that_never_runs_counts_as_off() -> None:
    looks = [look(0, {}), look(1, {}, gc_threshold=0), look(2, {}, gc_threshold=10**9),
             look(3, {}, gc_enabled=False), look(4, {}, gc_threshold=2000)]  # fmt: skip
    timeline = build_timeline(recording(*generations([100.0] * 6), *looks))
    assert [found.collects for found in timeline.looks] == [True, False, False, False, True]


def test_a_probe_of_the_living_program_tells_more_than_that_at_its_exit() -> None:
    live = {"event": "probe", "pid": PID, "t": 3.0, "live": True, "anon_bytes": 5}
    at_exit = {"event": "probe", "pid": PID, "t": 9.0, "live": False, "anon_bytes": 4}
    probe = build_timeline(recording(*generations([100.0] * 6), live, at_exit)).probe
    assert probe is not None
    assert probe["anon_bytes"] == 5


def test_a_class_that_is_listed_late_is_known_from_the_first_look_on() -> None:
    first, later = look(0, {}), look(4, {})
    later = {**later, "counts": {"figure.Figure": 5}, "first_counts": {"figure.Figure": 1}}
    timeline = build_timeline(recording(*generations([100.0] * 8), first, later))
    assert [k.counts.get("figure.Figure") for k in timeline.looks] == [1, 5]
