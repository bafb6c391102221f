"""Checkpoints from strangers: an error with a hint and the save before, whatever they say."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger import CheckpointError
from ramledger.replay import Prioritized, ReplayBuffer, inspect, verify
from ramledger.replay.checkpoints.random_state import GENERATORS, restored_rng, rng_state
from tests.support.crafted_checkpoints import body_of, rewritten, with_text
from tests.support.numbered_transitions import add, assert_true, filled


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two saves, the second of which is changed."""
    buffer = filled(300, 400, prioritized=Prioritized())
    buffer.save(tmp_path)
    add(buffer, 300, 60)
    buffer.save(tmp_path)
    return tmp_path


def assert_passed_over(folder: Path) -> None:
    """The second save is refused with a reason, and the first is used."""
    for lazy in (False, True):
        loaded = ReplayBuffer.load(folder, lazy=lazy)
        assert loaded.restored is not None and "save 2" in loaded.restored.lost[0]
        assert loaded.total_added == 300
        assert_true(loaded)
    with pytest.raises(CheckpointError) as caught:
        ReplayBuffer.load(folder, number=2)
    assert caught.value.hint
    assert inspect(folder).number in (1, 2)
    assert verify(folder)[1].is_whole


def setting(*path: Any, to: Any) -> Callable[[dict[str, Any]], object]:
    def change(body: Any) -> None:
        for name in path[:-1]:
            body = body[name]
        body[path[-1]] = to

    return change


STREAM = ("state", "arena", "streams", 0)
LAYOUT = ("settings", "layout")


@pytest.mark.parametrize(
    "change",
    [
        setting("state", "rng", "bit_generator", to="test"),
        setting("state", "rng", "bit_generator", to="seed"),
        setting("state", "rng", "state", "state", to=1 << 200),
        setting("state", "rng", "uinteger", to=-1),
        setting("state", "rng", to=None),
        setting("state", "largest_priority", to="1"),
        setting("state", "total_added", to=-1),
        setting("state", "arena", "free", to=[0, 0]),
        setting("state", "arena", "high_chunk", to=10**9),
        setting(*STREAM, "head", to=10**12),
        setting(*STREAM, "added", to=10**15),
        setting(*STREAM, "oldest", to=-1),
        setting(*STREAM, "open_chunks", to=[[0]]),
        setting(*LAYOUT, "transitions", to=2**31),
        setting(*LAYOUT, "transitions", to=10**30),
        setting(*LAYOUT, "streams", to=10**9),
        setting(*LAYOUT, "streams", to="1"),
        setting(*LAYOUT, "chunks", to=10**9),
        setting(*LAYOUT, "chunk_rows", to=0),
        setting(*LAYOUT, "more", to=1),
        setting("settings", "n_envs", to=10**9),
        setting("settings", "compress", to="rar"),
        setting("settings", "prioritized", to={"alpha": "x"}),
        setting("settings", "prioritized", to=None),
        setting("schema", "observation", "shape", to=[10**12, 10**12]),
        setting("schema", "observation", "shape", to=[-1]),
        setting("schema", "observation", "dtype", to="O"),
        setting("schema", "observation", "dtype", to="f4,(2,"),
        setting("schema", "observation", to=[]),
        setting("schema", to={}),
        setting("number", to=1),
        setting("number", to=True),
        setting("buffer_id", to="../x"),
        setting("made_at", to="now"),
        setting("lineage", to=""),
        setting("history", to=[["x", 1]]),
        setting("unknown", to=1),
        setting("blocks", to=[]),
        setting("blocks", to=None),
        setting("blocks", 0, 0, to="nothing"),
        setting("blocks", 0, 4, to=10**9),
        setting("blocks", 0, 6, to=[]),
        setting("blocks", 0, 6, 0, 0, to=-1),
        setting("blocks", 0, 6, 0, 1, to=10**15),
        setting("blocks", 0, 6, 0, 3, to="rar"),
    ],
)
def test_what_makes_no_sense_is_passed_over(
    folder: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    rewritten(folder, 2, change)
    assert_passed_over(folder)


@pytest.mark.parametrize("name", ["schema", "settings", "state", "tables", "blocks", "number"])
def test_keys_that_are_missing(folder: Path, name: str) -> None:
    rewritten(folder, 2, lambda body: body.pop(name))
    assert_passed_over(folder)


NAMES = [
    "../00000001-0000.seg",
    "/etc/passwd",
    "00000001-0000.seg/../x",
    "",
    "x.seg",
    "writer.lock",
    "00000001-0000.seg\n",
    "\u0661" * 8 + "-0000.seg",  # digits, but others
]


@pytest.mark.parametrize("name", NAMES)
def test_segments_are_files_of_the_folder(folder: Path, name: str) -> None:
    rewritten(folder, 2, setting("blocks", 0, 5, to=name))
    assert_passed_over(folder)


NO_MANIFESTS = [
    b"[" * 100_000,
    b'{"number":' + b"9" * 100_000 + b"}",
    b"NaN",
    b"\xff\xfe",
    b"",
    b"[]",
    b'{"state":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
]


@pytest.mark.parametrize("text", NO_MANIFESTS)
def test_text_that_is_no_manifest(folder: Path, text: bytes) -> None:
    with_text(folder / "save-00000002.json", text)
    assert_passed_over(folder)


@pytest.mark.parametrize("codec", ["zlib", "zstd", "lz4"])
def test_bytes_that_were_never_compressed(folder: Path, codec: str) -> None:
    if codec != "zlib":
        pytest.importorskip("zstandard" if codec == "zstd" else "lz4")
    rewritten(folder, 2, setting("blocks", 0, 6, 0, 3, to=codec))
    loaded = ReplayBuffer.load(folder)
    assert loaded.restored is not None and "cannot be decompressed" in loaded.restored.lost[0]
    with pytest.raises(CheckpointError, match="cannot be decompressed"):
        ReplayBuffer.load(folder, lazy=True, number=2).sample(300)


def test_numbers_that_are_none(folder: Path) -> None:
    path = folder / "save-00000002.json"
    for number in ("NaN", "Infinity", "1e999"):
        body = body_of(path)
        body["made_at"] = 12345.5
        with_text(path, json.dumps(body).replace("12345.5", number).encode())
        assert_passed_over(folder)
        body["made_at"] = 1.0
        with_text(path, json.dumps(body).encode())


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "device"])
@pytest.mark.parametrize("what", ["manifest", "segment"])
def test_only_regular_files_are_opened(folder: Path, kind: str, what: str) -> None:
    """A pipe would make whoever reads it wait for ever."""
    path = folder / "save-00000002.json"
    if what == "segment":
        (path,) = folder.glob("00000002-*.seg")
    path.rename(folder.parent / f"{folder.name}-moved")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(folder.parent / f"{folder.name}-moved")
    else:
        path.symlink_to("/dev/zero")
    assert_passed_over(folder)
    problems = verify(folder)[0].problems
    assert problems and path.name in problems[0]


def test_manifests_that_were_swapped(tmp_path: Path) -> None:
    buffer = filled(100)
    for _ in range(3):
        buffer.save(tmp_path, keep=3)
        add(buffer, buffer.total_added, 50)
    paths = [tmp_path / f"save-{number:08d}.json" for number in (1, 2, 3)]
    texts = [path.read_bytes() for path in paths]
    paths[1].write_bytes(texts[2])
    paths[2].write_bytes(texts[1])
    loaded = ReplayBuffer.load(tmp_path)
    assert loaded.restored is not None and loaded.restored.number == 1
    assert loaded.total_added == 100
    assert all("swapped" in text for text in loaded.restored.lost)


def test_rows_that_are_missing_are_noticed(folder: Path) -> None:
    rewritten(folder, 2, lambda body: body["blocks"].pop())
    assert_passed_over(folder)


def test_one_place_does_not_fill_many_rows(tmp_path: Path) -> None:
    """Blocks that share bytes of a file would make a small file fill any memory."""
    filled(300).save(tmp_path)

    def repeat(body: dict[str, Any]) -> None:
        rows = [block for block in body["blocks"] if block[0] == "rows"]
        first = rows[0]
        length = first[2] - first[1]
        for number in range(1, 5):
            shifted = [position + number * length for position in first[1:5]]
            body["blocks"].append([first[0], *shifted, *first[5:]])

    rewritten(tmp_path, 1, repeat)
    with pytest.raises(CheckpointError, match="two blocks at one place"):
        ReplayBuffer.load(tmp_path)


def test_transitions_that_point_nowhere(tmp_path: Path) -> None:
    buffer = filled(300)
    buffer.store.starts[7] = 2**30
    buffer.save(tmp_path)
    for lazy in (False, True):
        with pytest.raises(CheckpointError, match="outside of the rows"):
            ReplayBuffer.load(tmp_path, lazy=lazy)


def test_priorities_that_are_no_numbers(tmp_path: Path) -> None:
    buffer = filled(300, 400, prioritized=Prioritized())
    assert buffer.tree is not None
    buffer.tree.leaves[3] = np.nan
    buffer.save(tmp_path)
    with pytest.raises(CheckpointError, match="priorities"):
        ReplayBuffer.load(tmp_path)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_of_the_list_comes_back(name: str) -> None:
    rng = np.random.Generator(GENERATORS[name](7))
    rng.integers(0, 2**31, 5, dtype=np.int32)
    again = restored_rng(json.loads(json.dumps(rng_state(rng))))
    assert again.random(50).tolist() == rng.random(50).tolist()


def test_a_generator_with_a_position_outside_of_its_state() -> None:
    state = rng_state(np.random.Generator(np.random.MT19937(1)))
    state["state"]["pos"] = 10**6
    with pytest.raises(ValueError, match="624"):
        restored_rng(state)
