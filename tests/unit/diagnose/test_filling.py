"""Buffers with a known end, from snapshots that the test made up."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ramledger.diagnose.filling import Filling, find_fillings
from ramledger.event_parts import ContainerContent
from ramledger.events import SnapshotEvent
from ramledger.run.timeline import build_timeline
from tests.support.made_up_recordings import MIB, generations, recording, snapshot

RING = "variables/t.py:run.ring"


def fillings(*snapshots: SnapshotEvent) -> list[Filling]:
    return find_fillings(build_timeline(recording(*generations([100.0] * 12), *snapshots)))


def ring(length: int, capacity: int, size: int) -> tuple[ContainerContent, ...]:
    return (
        ContainerContent(
            "t.py:run.ring", account=RING, length=length, capacity=capacity, bytes=size
        ),
    )


def test_reserved_at_once_and_touched_bit_by_bit_is_filling() -> None:
    found = fillings(*(snapshot(g, {RING: (10 * (g + 1), 200)}) for g in (0, 4, 8)))
    assert [f.account for f in found] == [RING]
    assert found[0].final_bytes == 200 * MIB
    assert not found[0].is_full


def test_a_fill_says_where_it_ends_before_what_is_reserved_does() -> None:
    snapshots = [
        snapshot(g, {RING: (10 * (g + 1), 4000)}, fill=fill)
        for g, fill in ((0, 0.05), (4, 0.25), (8, 0.45))
    ]
    assert fillings(*snapshots)[0].final_bytes == 200 * MIB


def test_what_reserves_more_as_it_goes_has_no_end() -> None:
    assert not fillings(*(snapshot(g, {RING: 10 * (g + 1)}) for g in (0, 4, 8)))


def test_a_container_with_a_capacity_is_filling() -> None:
    found = fillings(
        *(
            snapshot(g, {RING: 10 * (g + 1)}, containers=ring(100 * (g + 1), 2000, 1))
            for g in (0, 4, 8)
        )
    )
    assert found[0].fill == 900 / 2000
    assert found[0].final_bytes == 200 * MIB


@settings(deadline=None)
@given(st.floats(-10, 100))
def test_between_snapshots_it_never_leaves_its_bounds(t: float) -> None:
    filling = Filling("a", "a", (1.0, 5.0, 9.0), (10, 50, 90), 200, 0.45)
    assert 0 <= filling.at(t) <= 200


@settings(deadline=None)
@given(st.floats(0, 40), st.floats(0, 40))
def test_it_never_falls(a: float, b: float) -> None:
    filling = Filling("a", "a", (1.0, 5.0, 9.0), (10, 50, 90), 200, 0.45)
    assert filling.at(min(a, b)) <= filling.at(max(a, b))


def test_what_is_empty_and_then_full_was_made_not_filled() -> None:
    assert not fillings(
        *(snapshot(g, {RING: (size, 16)}) for g, size in ((0, 0), (4, 16), (8, 16)))
    )
    assert fillings(*(snapshot(g, {RING: (size, 16)}) for g, size in ((0, 0), (4, 9), (8, 16))))


def test_an_end_beyond_all_memory_is_none() -> None:
    assert not fillings(
        *(
            snapshot(g, {RING: 6 * (g + 1)}, containers=ring(g + 1, 2**31 - 1, (g + 1) * 6 * MIB))
            for g in (0, 4, 8)
        )
    )


def test_the_capacity_of_rows_is_not_that_of_a_dictionary_of_columns() -> None:
    columns = ring(3, 1600, 80 * MIB)
    snapshots = [
        snapshot(g, {RING: (size, 86)}, containers=columns) for g, size in ((0, 20), (8, 60))
    ]
    assert [f.final_bytes for f in fillings(*snapshots)] == [86 * MIB]


def test_a_container_that_snapshots_list_in_parts_is_one_and_was_empty_before() -> None:
    def deque(g: int) -> tuple[ContainerContent, ...]:
        return ring(100 * (g - 3), 500, (g - 3) * 20 * MIB)

    found = fillings(
        snapshot(0, {}),
        snapshot(3, {}),
        snapshot(5, {f"{RING}.states": 38, f"{RING}.actions": 2}, containers=deque(5)),
        snapshot(8, {RING: 100}, containers=deque(8)),
        snapshot(11, {RING: 100}, containers=deque(8)),
    )
    assert [(f.account, f.final_bytes, f.is_full) for f in found] == [(RING, 100 * MIB, True)]
    assert found[0].resident == (0, 40 * MIB, 100 * MIB, 100 * MIB)
    assert found[0].covers(f"{RING}.states") and not found[0].covers(f"{RING}2")
