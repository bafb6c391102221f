"""Replay buffers as arrays are recognized by their rows; pages that nobody touched stay so."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger.interpreter.array_storage import storage_of
from ramledger.ledger import Source
from ramledger.objects.holdings import Block, Holding
from ramledger.objects.names.paths import Paths
from ramledger.objects.replays.ring_arrays import ring_arrays

Array = np.ndarray[Any, Any]


def holdings(**arrays: Array) -> list[Holding]:
    root = Paths().root("Memory")
    found = []
    for name, array in arrays.items():
        path, storage = root.step(f".{name}"), storage_of(array)
        assert storage is not None
        block = Block(storage, path, path.account)
        found.append(Holding(path.account, Source.PATH, [block]))
    return found


def filled(rows: int, until: int, episode: int = 50) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    state, following = np.zeros((rows, 16)), np.zeros((rows, 16))
    here = rng.random(16)
    for at in range(until):
        there = rng.random(16)
        state[at], following[at] = here, there
        here = rng.random(16) if at % episode == episode - 1 else there
    return state, following


def test_rows_that_follow_each_other() -> None:
    state, following = filled(5_000, 3_000)
    action = np.zeros((5_000, 2))
    ((ring, content),) = ring_arrays(holdings(s=state, a=action, s2=following))
    assert (ring.rows, ring.filled_rows, str(ring.holder)) == (5_000, 3_000, "Memory")
    named = {field.name: (field.kind, field.bytes) for field in content.fields}
    assert named == {"s": ("observation", 128), "a": ("array", 16), "s2": ("next observation", 128)}
    assert content.stored_twice > 0.9


def test_the_ring_has_wrapped() -> None:
    state, following = filled(1_000, 1_000)
    ((ring, _),) = ring_arrays(holdings(s=state, s2=following))
    assert ring.filled_rows == 1_000


def test_untouched_pages_are_not_touched() -> None:
    rows = 200_000
    state, following = np.zeros((rows, 64)), np.zeros((rows, 64))
    part = filled(500, 500)
    state[:500, :16], following[:500, :16] = part
    before = page_table_bytes()
    assert len(ring_arrays(holdings(s=state, s2=following))) == 1
    assert page_table_bytes() - before <= 8192


def page_table_bytes() -> int:
    """Each page of page tables maps 2 MiB: a read of a page that has none makes one."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmPTE"))


@pytest.mark.parametrize("until", [0, 1, 5, 40])
def test_too_few_rows_tell_nothing(until: int) -> None:
    state, following = filled(1_000, until)
    assert ring_arrays(holdings(s=state, s2=following)) == []


def test_other_arrays_are_no_buffer() -> None:
    rng = np.random.default_rng(0)
    assert ring_arrays(holdings(x=rng.random((1_000, 8)), y=rng.random((1_000, 8)))) == []
    assert ring_arrays(holdings(x=rng.random((1_000, 8)))) == []
    assert ring_arrays(holdings(x=rng.random(1_000), y=rng.random(1_000))) == []


def test_arrays_of_a_list_are_not_compared_with_each_other() -> None:
    """Of n arrays there are n² pairs: a snapshot of a list of windows must not read them."""
    path = Paths().root("Memory").step(".windows").step("[*]")
    arrays = [filled(300, 300)[0] for _ in range(20)]
    storages = [storage_of(array) for array in arrays]
    blocks = [Block(one, path, path.account) for one in storages if one is not None]
    assert ring_arrays([Holding(path.account, Source.PATH, blocks)]) == []
