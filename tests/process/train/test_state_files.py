"""State files from strangers and of the first version; runs that upload to one place."""

import json
import os
import random
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ramledger.errors import CheckpointError, RamledgerError
from ramledger.train import checkpoint
from ramledger.train.remote_checkpoints import fetch
from tests.process.replay.test_crafted_checkpoints import damaged, mutations
from tests.support.places import DATA
from tests.support.small_trainings import SMALL_TOML, new_trainer, resumed, same, train

FORMAT_1 = DATA / "replay_format_1.zip"
FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "4"))
TAIL = struct.Struct("<QI4s")


def split(path: Path) -> tuple[bytes, Any]:
    """The tensors and the index of a state file."""
    data = path.read_bytes()
    size, _, _ = TAIL.unpack(data[-TAIL.size :])
    end = len(data) - TAIL.size
    return data[: end - size], json.loads(data[end - size : end])


def joined(tensors: bytes, text: bytes) -> bytes:
    return tensors + text + TAIL.pack(len(text), zlib.crc32(text), b"RLT1")


def rewritten(path: Path, change: Callable[[Any], object]) -> None:
    tensors, index = split(path)
    change(index)
    path.write_bytes(joined(tensors, json.dumps(index).encode()))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two checkpoints."""
    new_trainer(tmp_path / "run", generations=2).run()
    return tmp_path / "run"


CHANGES: list[Callable[[Any], object]] = [
    lambda index: index["state"].pop("generation"),
    lambda index: index["state"].update(phase="nothing"),
    lambda index: index["state"].update(generation=-1),
    lambda index: index["state"].update(fitness=[1.0]),
    lambda index: index["state"].update(fitness="x"),
    lambda index: index["state"].update(rates=[[], []]),
    lambda index: index["state"].update(config={"population": "x"}),
    lambda index: index["state"].update(config={}),
    lambda index: index["state"].update(replay=5),
    lambda index: index["tensors"].clear(),
    lambda index: index["tensors"][0].__setitem__(3, 10**15),
    lambda index: index["tensors"][0].__setitem__(2, [-1]),
    lambda index: index.update(format="ramledger.train/9"),
    lambda index: index.update(tensors=None),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_what_makes_no_sense_is_passed_over(run: Path, number: int) -> None:
    rewritten(checkpoint.path_of(run, 2), CHANGES[number])
    found = resumed(run)
    assert found.generation == 1
    assert found.lost


@pytest.mark.parametrize("text", [b"[" * 50_000, b"9" * 9_000, b"\xff", b"", b"[]"])
def test_an_index_that_is_none(run: Path, text: bytes) -> None:
    path = checkpoint.path_of(run, 2)
    path.write_bytes(joined(split(path)[0], text))
    assert resumed(run).generation == 1


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
def test_only_regular_files_are_opened(run: Path, kind: str) -> None:
    path = checkpoint.path_of(run, 2)
    path.rename(run / "moved")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(run / "moved")
    found = resumed(run, generations=3)
    assert found.generation == 1
    found.run()
    assert os.path.lexists(path)


def test_a_run_that_diverged_is_resumed(run: Path) -> None:
    rewritten(
        checkpoint.path_of(run, 2),
        lambda index: index["state"].update(loss=float("nan"), best_score=float("-inf")),
    )
    assert resumed(run).generation == 2


def test_any_change_is_an_error_or_nothing(run: Path) -> None:
    rng = random.Random(3)
    path = checkpoint.path_of(run, 2)
    tensors, index = split(path)
    whole = path.read_bytes()
    changes = mutations(rng, index)
    deadline = time.monotonic() + FUZZ_SECONDS
    loaded = passed_over = number = 0
    while time.monotonic() < deadline or number < 60:
        number += 1
        if number % 3:
            next(changes)
            try:
                path.write_bytes(joined(tensors, json.dumps(index).encode()))
            except (ValueError, RecursionError):  # a document that contains itself
                continue
        else:
            path.write_bytes(damaged(rng, whole))
        try:
            found = resumed(run)
        except RamledgerError as error:  # of a configuration that asks for what is not there
            assert error.hint, error.message
            continue
        loaded += not found.lost
        passed_over += bool(found.lost)
    assert loaded and passed_over > 10


def test_files_of_others_stay(run: Path) -> None:
    names = ["state-00000003.tmp", "notes.tmp", "state-00000003-0123456789abcdef.tmp",
             "state-00000000.tensors"]  # fmt: skip
    for name in names:
        (run / name).write_text("theirs")
    left = run / "state-00000003-fedcba9876543210.tmp"
    left.write_bytes(b"ramledger.state\n".ljust(64) + b"tensors")
    resumed(run, generations=6).run()
    assert all((run / name).read_text() == "theirs" for name in names)
    assert not left.exists()


def test_a_run_of_the_first_version_goes_on(tmp_path: Path) -> None:
    with zipfile.ZipFile(FORMAT_1) as archive:
        archive.extractall(tmp_path)
    found = resumed(tmp_path / "run", generations=4)
    assert (found.generation, found.lost) == (2, ())
    assert found.run() == "finished"
    again = resumed(tmp_path / "run")
    same(found, again)


# ---- uploads -------------------------------------------------------------------------------------


def test_a_state_that_came_damaged_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    from tests.process.train.test_remote_checkpoints import Told, sending

    store = tmp_path / "store"
    sending(tmp_path / "a", store, 2, Told()).run()
    newest, before = sorted(store.glob("extra/*/state-*.tensors"), reverse=True)
    whole = newest.read_bytes()
    for number, bad in enumerate((whole[:500], whole[:2000] + b"\0" * 99 + whole[2099:], None)):
        newest.unlink()
        if bad is not None:
            newest.write_bytes(bad)
        fetch(str(store), tmp_path / f"b{number}")
        assert resumed(tmp_path / f"b{number}").generation == 1
        newest.write_bytes(whole)
    fetch(str(store), tmp_path / "c")
    assert resumed(tmp_path / "c").generation == 2
    newest.write_bytes(b"")
    before.write_bytes(b"")
    with pytest.raises(CheckpointError, match="no intact checkpoint"):
        fetch(str(store), tmp_path / "d")


def test_two_runs_that_went_on_from_one_checkpoint(tmp_path: Path) -> None:
    """The second is not uploaded and says so; with --force it is, and the first stays."""
    (tmp_path / "small.toml").write_text(SMALL_TOML)
    sent = ("--upload", "store")
    done = train("small.toml", "--out", "a", "--generations", "1", *sent, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for out in ("b", "c"):
        fetch(str(tmp_path / "store"), tmp_path / out)
    done = train("--out", "b", "--resume", "--generations", "2", *sent, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = train("--out", "c", "--resume", "--generations", "3", *sent, cwd=tmp_path)
    assert done.returncode == 1
    assert "another run" in done.stderr and "--force" in done.stderr
    assert "generation 3 of 3" in done.stdout
    uploads = sorted(path.name for path in (tmp_path / "store" / "uploads").iterdir())
    done = train("--out", "c", "--resume", "--generations", "4", "--force", *sent, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(uploads[1:]) < {path.name for path in (tmp_path / "store" / "uploads").iterdir()}
    fetch(str(tmp_path / "store"), tmp_path / "d")
    same(resumed(tmp_path / "c"), resumed(tmp_path / "d"))
    done = train("--out", "e", "--force", cwd=tmp_path)
    assert (done.returncode, "--upload" in done.stderr) == (1, True)
