"""Causes from snapshots that the test made up."""

from typing import Any

import pytest

from ramledger.diagnose.causes import explain_leak
from ramledger.diagnose.finding import Cause, Explanation
from ramledger.diagnose.growth_table import growth_table
from ramledger.event_parts import ContainerContent, ViewPins
from ramledger.events import (
    AllocatorsEvent,
    Event,
    NamesSnapshotEvent,
    ReleaseProbeEvent,
    SnapshotEvent,
)
from ramledger.run.timeline import build_timeline
from tests.support.made_up_recordings import (
    MIB,
    PID,
    generations,
    names_snapshot,
    recording,
    snapshot,
)

LOG = "variables/t.py:run.log"


def explained(*events: Event) -> Explanation:
    levels = generations([100 + 6 * i for i in range(13)])
    return explain_leak(growth_table(build_timeline(recording(*levels, *events))), 0.0)


def snapshots(**by_generation: Any) -> list[SnapshotEvent]:
    """After generations 0, 4, 8, 12; each value is a function of the generation."""
    return [
        snapshot(g, **{name: value_at(g) for name, value_at in by_generation.items()})
        for g in (0, 4, 8, 12)
    ]


def container(
    g: int, of: str = "numpy.ndarray", *, path: str = "t.py:run.log", length: int = 1, **more: Any
) -> ContainerContent:
    """A list that gets so many elements and 6 MiB more in each generation."""
    whole = {"type": "list", "bytes": 6 * MIB * (g + 1), **more}
    return ContainerContent(path, length=length * (g + 1), of=of, account=LOG, **whole)


def test_a_container_that_grows_is_named_with_its_path() -> None:
    found = explained(
        *snapshots(
            accounts=lambda g: {LOG: 6 * (g + 1)},
            containers=lambda g: (container(g, length=10),),
        )
    )
    assert found.cause is Cause.UNBOUNDED_CONTAINER
    assert found.culprit.path == "t.py:run.log"
    assert found.culprit.type == "numpy.ndarray"
    assert "t.py:run.log" in found.advice


def test_a_class_that_grows_each_generation_is_pinned() -> None:
    found = explained(
        *snapshots(
            accounts=lambda g: {"variables/<Env>": 6 * (g + 1)},
            live_objects=lambda g: {"t.Env": g + 1, "t.Trainer": 1, "dict": 5000 + 40 * g},
            user_classes=lambda g: ("t.Env", "t.Trainer"),
        )
    )
    assert found.cause is Cause.OBJECT_PINNED
    assert found.culprit.type == "t.Env"


def test_a_count_that_jumps_once_is_no_culprit() -> None:
    found = explained(
        *snapshots(
            accounts=lambda g: {LOG: 6 * (g + 1)},
            live_objects=lambda g: {"lib.Thing": 3 if g < 8 else 90},
        )
    )
    assert found.culprit.type != "lib.Thing"


@pytest.mark.parametrize("step", [1, 5])
def test_tensors_with_graphs_that_grow_in_number(step: int) -> None:
    found = explained(
        *snapshots(
            accounts=lambda g: {"native/in use": 6 * g}, tensors_with_graph=lambda g: step * g
        )
    )
    assert found.cause is Cause.GRAPH_RETENTION


def test_freed_memory_that_grows_is_the_allocators() -> None:
    found = explained(*snapshots(accounts=lambda g: {"allocator/free": 6 * g}))
    assert found.cause is Cause.ALLOCATOR_RETENTION


def test_native_memory_alone_is_a_native_leak() -> None:
    assert (
        explained(*snapshots(accounts=lambda g: {"native/in use": 6 * g})).cause
        is Cause.NATIVE_LEAK
    )


def test_native_memory_that_comes_with_figures_is_theirs() -> None:
    found = explained(
        *snapshots(
            accounts=lambda g: {"native/in use": 6 * g},
            live_objects=lambda g: {
                "plots.figure.Figure": g,
                "plots.Canvas": g,
                "plots.Line": 40 * g,
            },
        )
    )
    assert found.cause is Cause.OBJECT_PINNED
    assert found.culprit.type == "plots.figure.Figure"


def test_garbage_with_the_collector_off() -> None:
    found = explained(
        *snapshots(
            accounts=lambda g: {"variables/<Env>": 6 * (g + 1)},
            live_objects=lambda g: {"t.Env": g + 1},
            user_classes=lambda g: ("t.Env",),
            gc_enabled=lambda g: False,
        )
    )
    assert found.cause is Cause.GC_OFF


@pytest.mark.parametrize(
    ("freed", "objects", "cause"), [(70, 50, Cause.GC_OFF), (0, 0, Cause.OBJECT_PINNED)]
)
def test_a_collector_that_never_runs_is_shown_by_the_probe(
    freed: int, objects: int, cause: Cause
) -> None:
    probe = ReleaseProbeEvent(
        t=15.0,
        pid=PID,
        anon_bytes=180 * MIB,
        collected_objects=objects,
        after_collect_bytes=180 * MIB,
        after_trim_bytes=(180 - freed) * MIB,
    )
    found = explained(
        *snapshots(
            accounts=lambda g: {"variables/<Env>": 6 * (g + 1)},
            live_objects=lambda g: {"t.Env": g + 1},
            user_classes=lambda g: ("t.Env",),
        ),
        probe,
    )
    assert found.cause is cause


def test_without_snapshots_the_allocators_own_numbers_decide() -> None:
    allocators = [
        AllocatorsEvent(
            t=g + 1.01,
            pid=PID,
            generation=g,
            malloc_in_use_bytes=50 * MIB,
            malloc_free_bytes=6 * g * MIB,
            python_in_use_bytes=9 * MIB,
        )
        for g in range(13)
    ]
    assert explained(*allocators).cause is Cause.ALLOCATOR_RETENTION
    assert explained().cause is Cause.UNKNOWN


def test_views_that_keep_whole_arrays_alive_are_a_cause_of_their_own() -> None:
    def pins(g: int) -> dict[str, ViewPins]:
        size = 6 * MIB * (g + 1)
        return {LOG: ViewPins(size, size, 2 * (g + 1), "numpy.ndarray", (4,), 3 * MIB)}

    found = explained(
        *snapshots(
            accounts=lambda g: {LOG: 6 * (g + 1)},
            containers=lambda g: (container(g, length=2),),
            pinned_by_views=pins,
        )
    )
    assert found.cause is Cause.PINNED_BY_SMALL_OWNER
    assert ".copy()" in found.advice
    assert "3.0 MiB" in found.evidence[0]


def test_a_list_of_lists_is_named_after_what_is_in_those() -> None:
    def lists(g: int) -> tuple[ContainerContent, ...]:
        return container(g, "list"), container(g, path="t.py:run.log[*]", length=80)

    found = explained(*snapshots(accounts=lambda g: {LOG: 6 * (g + 1)}, containers=lists))
    assert found.culprit.path == "t.py:run.log"
    assert found.culprit.type == "numpy.ndarray"


def test_a_container_of_the_users_own_objects_pins_them() -> None:
    found = explained(
        *snapshots(
            accounts=lambda g: {LOG: 6 * (g + 1)},
            containers=lambda g: (container(g, "t.Agent"),),
            live_objects=lambda g: {"t.Agent": g + 1},
            user_classes=lambda g: ("t.Agent",),
        )
    )
    assert found.cause is Cause.OBJECT_PINNED
    assert (found.culprit.type, found.culprit.path) == ("t.Agent", "t.py:run.log")


def test_the_container_that_collects_graphs_is_named() -> None:
    def tensors(path: str, **more: Any) -> ContainerContent:
        return ContainerContent(path, of="torch.Tensor", account=LOG, **more)

    def containers(g: int) -> tuple[ContainerContent, ...]:
        grown = 8 * (g + 1)
        return (
            tensors("t.py:run.priorities", type="dict", length=grown, bytes=100, graphs=grown),
            tensors("t.py:run.other", type="list", length=8, bytes=9000, graphs=8),
        )

    found = explained(
        *snapshots(
            accounts=lambda g: {"native/in use": 6 * (g + 1)},
            containers=containers,
            tensors_with_graph=lambda g: 8 * (g + 2),
        )
    )
    assert found.cause is Cause.GRAPH_RETENTION
    assert found.culprit.path == "t.py:run.priorities"


def test_models_that_stay_alive_with_their_tensors_are_pinned_objects() -> None:
    found = explained(
        *snapshots(
            accounts=lambda g: {"variables/t.py:run.results": 6 * (g + 1)},
            live_objects=lambda g: {"t.Trial": g + 1},
            user_classes=lambda g: ("t.Trial",),
            tensors_with_graph=lambda g: 2 * (g + 1),
        )
    )
    assert found.cause is Cause.OBJECT_PINNED
    assert found.culprit.type == "t.Trial"


def test_a_class_that_is_listed_late_has_grown_as_much_as_the_others() -> None:
    def counts(g: int) -> dict[str, int]:
        found = {"plots.figure.Figure": g + 1, "plots.parts.Margins": g + 1}
        return found if g >= 8 else {"plots.figure.Figure": g + 1}

    began = {"plots.figure.Figure": 1, "plots.parts.Margins": 1}
    found = explained(
        *snapshots(accounts=lambda g: {"native/in use": 6 * (g + 1)}, live_objects=counts,
               first_live_objects=lambda g: began)
    )  # fmt: skip
    assert found.culprit.type == "plots.figure.Figure"


def test_arenas_that_small_objects_hold_are_not_mallocs() -> None:
    found = explained(*snapshots(accounts=lambda g: {"python/free": 6 * (g + 1)}))
    assert (found.cause, found.culprit.path) == (Cause.ALLOCATOR_RETENTION, "python/free")
    found = explained(*snapshots(accounts=lambda g: {"allocator/free": 6 * (g + 1)}))
    assert (found.cause, found.culprit.path) == (Cause.ALLOCATOR_RETENTION, "allocator/free")


def held_in_list(of: str, records: int = 1, **more: Any) -> Explanation:
    return explained(
        *snapshots(
            accounts=lambda g: {LOG: 6 * (g + 1)},
            containers=lambda g: (container(g, of, length=records),),
            live_objects=lambda g: {of: records * (g + 1)},
            user_classes=lambda g: (of,),
            **more,
        )
    )


def test_a_list_of_data_is_unbounded_and_one_of_other_things_pins_them() -> None:
    assert held_in_list("t.Env").cause is Cause.OBJECT_PINNED
    assert held_in_list("t.Node", 1_000).cause is Cause.UNBOUNDED_CONTAINER
    sample = held_in_list("t.Sample", record_classes=lambda g: ("t.Sample",))
    assert (sample.cause, sample.culprit.type) == (Cause.UNBOUNDED_CONTAINER, "t.Sample")


def test_what_keeps_a_frame_or_a_text_is_a_small_owner() -> None:
    report = held_in_list("t.Report", frame_holders=lambda g: {"t.Report": g + 1})
    assert report.cause is Cause.PINNED_BY_SMALL_OWNER
    match = held_in_list("re.Match")
    assert (match.cause, match.culprit.type) == (Cause.PINNED_BY_SMALL_OWNER, "re.Match")


def test_a_tensor_whose_history_gets_longer_keeps_its_graph() -> None:
    accounts = lambda g: {"native/in use": 6 * (g + 1)}  # noqa: E731
    found = explained(*snapshots(accounts=accounts, graph_depth=lambda g: 20 * (g + 1)))
    assert found.cause is Cause.GRAPH_RETENTION
    flat = explained(*snapshots(accounts=accounts, graph_depth=lambda g: 20))
    assert flat.cause is not Cause.GRAPH_RETENTION


def test_what_is_frozen_in_every_generation_is_never_collected() -> None:
    accounts = lambda g: {"native/in use": 6 * (g + 1)}  # noqa: E731
    found = explained(*snapshots(accounts=accounts, gc_frozen_objects=lambda g: 10_000 + 500 * g))
    assert found.cause is Cause.GC_OFF
    once = explained(*snapshots(accounts=accounts, gc_frozen_objects=lambda g: 10_000))
    assert once.cause is not Cause.GC_OFF


def named(g: int, **more: Any) -> NamesSnapshotEvent:
    return names_snapshot(g, {LOG: 6 * (g + 1)}, containers=(container(g, length=10, **more),))


def test_where_no_object_was_counted_the_container_that_names_lead_to_is_found() -> None:
    found = explained(named(0), named(6), named(12))
    assert (found.cause, found.culprit.path) == (Cause.UNBOUNDED_CONTAINER, "t.py:run.log")
    assert "len(t.py:run.log): 70 -> 130" in found.evidence[0]
    last = snapshot(12, {LOG: 6 * 13}, containers=(container(12, length=10),))
    assert explained(named(0), last).culprit.path == "t.py:run.log"


def test_by_name_alone_neither_one_snapshot_nor_a_bounded_container_decides() -> None:
    assert explained(named(12)).cause is Cause.UNKNOWN
    assert explained(named(0, capacity=500), named(12, capacity=500)).cause is Cause.UNKNOWN
