"""The census counts what is alive, arrays included, and keeps nothing alive itself."""

import gc
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from ramledger.interpreter import tracked_objects
from ramledger.interpreter.tracked_objects import is_compiled
from ramledger.objects.census.live_objects import LiveObjects, count_live_objects


@pytest.fixture(autouse=True, params=["compiled", "pure"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    gc.collect()  # what earlier tests left must not vanish in the middle of one
    if request.param == "compiled":
        if not is_compiled():
            pytest.skip("the part in C is not compiled")
        yield "compiled"
        return
    monkeypatch.setattr(tracked_objects, "heap_walk", None)
    monkeypatch.setattr(tracked_objects, "MOST_WITHOUT_REST", 100_000_000)
    gc.freeze()  # without the part in C, large programs are not counted: only what a test makes
    yield "pure"
    gc.unfreeze()


LOOKS = 4  # beside which a program goes on


class Marker:
    """A user class: always listed."""


def _array_growth(before: LiveObjects, after: LiveObjects, kind: type) -> tuple[int, int]:
    return (
        after.array_counts[id(kind)] - before.array_counts[id(kind)],
        after.array_bytes[id(kind)] - before.array_bytes[id(kind)],
    )


HOLDERS: list[Any] = [
    lambda arrays: list(arrays),
    lambda arrays: tuple(arrays),
    lambda arrays: dict(enumerate(arrays)),
    lambda arrays: deque(arrays),
    lambda arrays: [{"obs": array} for array in arrays],
    lambda arrays: [(1, ({"deep": (array,)},)) for array in arrays],
]


@pytest.fixture(autouse=True)
def no_garbage() -> None:
    """What other tests left in cycles must not go between two counts."""
    gc.collect()


@pytest.mark.parametrize("holder", HOLDERS)
def test_arrays_are_found_in_every_container(holder: Any) -> None:
    """gc tracks no ndarray, and stops tracking dicts and tuples that hold only arrays."""
    before = count_live_objects()
    kept = holder(np.ones(16) for _ in range(500))
    gc.collect()
    count, size = _array_growth(before, count_live_objects(), np.ndarray)
    assert count == 500
    assert size == 500 * 16 * 8
    del kept


@pytest.mark.parametrize("length", [1_000, 50_000])
@pytest.mark.parametrize("make", [list, tuple, deque, lambda some: dict(enumerate(some))])
def test_arrays_in_tuples_are_found_in_containers_of_any_length(make: Any, length: int) -> None:
    """Also in containers so long that a walk rests in the middle of them."""
    before = count_live_objects()
    kept = make([(np.ones(4),) for _ in range(length)])
    gc.collect()
    count, size = _array_growth(before, count_live_objects(), np.ndarray)
    assert (count, size) == (length, length * 32)
    del kept


class Tracked(np.ndarray):
    """A subclass of the user's: gc tracks its instances, and they are referred to as well."""


def test_arrays_that_gc_tracks_count_once() -> None:
    before = count_live_objects()
    kept = [np.ones(16).view(Tracked) for _ in range(500)]
    count, _ = _array_growth(before, count_live_objects(), Tracked)
    assert count == 500
    del kept


def test_an_array_with_many_holders_counts_once() -> None:
    before = count_live_objects()
    array = np.ones(1000)
    kept = [[array] for _ in range(50_000)]
    count, size = _array_growth(before, count_live_objects(), np.ndarray)
    assert (count, size) == (1, 8000)
    del kept


def test_neighbors_that_share_an_observation_count_it_once() -> None:
    before = count_live_objects()
    observations = [np.ones(32, np.float32) for _ in range(3001)]
    kept = [{"obs": observations[i], "next_obs": observations[i + 1]} for i in range(3000)]
    del observations
    count, size = _array_growth(before, count_live_objects(), np.ndarray)
    assert (count, size) == (3001, 3001 * 128)
    del kept


def test_views_own_nothing_but_bring_their_base() -> None:
    view = np.zeros(1_000_000)[:10]
    census = count_live_objects()
    base: Any = view.base
    address = base.__array_interface__["data"][0]
    assert census.large[address].pinned_by_view


def test_tensor_storages_count_once() -> None:
    before = count_live_objects()
    tensor = torch.zeros(100_000)
    kept = [tensor[i:] for i in range(20)]
    count, size = _array_growth(before, count_live_objects(), torch.Tensor)
    assert count == 21
    assert size == 400_000
    del kept


def test_tensors_with_a_graph_are_counted() -> None:
    before = count_live_objects().graph_tensors
    weight = torch.ones(3, requires_grad=True)
    losses = [(weight * i).sum() for i in range(7)]
    assert count_live_objects().graph_tensors - before == 7
    del losses


def test_user_classes_are_always_listed() -> None:
    kept = [Marker() for _ in range(3)]
    rows = {row.type: row.count for row in count_live_objects().type_counts(top=1)}
    assert rows[f"{Marker.__module__}.Marker"] == 3
    del kept


def test_sizes_by_type_are_close_to_the_truth() -> None:
    before = {r.type: r.bytes for r in count_live_objects().type_counts(top=100)}
    kept = [[None] * 100 for _ in range(20_000)]
    after = {r.type: r.bytes for r in count_live_objects().type_counts(top=100)}
    truth = 20_000 * (56 + 100 * 8)
    assert after["list"] - before["list"] == pytest.approx(truth, rel=0.1)
    del kept


def test_nothing_is_kept_alive_and_gc_is_as_it_was() -> None:
    marker = Marker()
    alive = weakref.ref(marker)
    state = (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count())
    count_live_objects()
    del marker
    assert alive() is None
    assert (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()) == state


def test_tuples_that_are_being_made_are_left_alone(way: str) -> None:
    """gc shows a tuple that C code still fills; were it held, resizing it would fail."""
    if way == "pure":
        pytest.skip("each look waits three seconds for a program that never rests")
    stop = threading.Event()
    taken: list[None] = []

    def look() -> None:
        while not stop.is_set():
            count_live_objects(arrays=False)
            taken.append(None)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        while len(taken) < LOOKS:
            assert len(tuple(map(_some_work, range(40)))) == 40
    finally:
        stop.set()
        looker.join()


def _some_work(x: int) -> list[int]:
    return [x + i for i in range(20)]


def test_arrays_can_be_resized_beside_a_census(way: str) -> None:
    """numpy refuses to resize an array in place while anybody else refers to it."""
    if way == "pure":
        pytest.skip("arrays are held for a moment without the part in C")
    arrays = [np.ones(1 << 14) for _ in range(8)]
    stop = threading.Event()
    taken: list[None] = []

    def look() -> None:
        while not stop.is_set():
            count_live_objects()
            taken.append(None)

    looker = threading.Thread(target=look)
    looker.start()
    refused = calls = 0
    try:
        while len(taken) < LOOKS or calls < 1_000:
            for array in range(8):
                calls += 1
                try:
                    arrays[array].resize((1 << 14) + calls % 100)
                except ValueError:
                    refused += 1
    finally:
        stop.set()
        looker.join()
    assert refused == 0
