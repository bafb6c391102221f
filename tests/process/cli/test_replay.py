"""`ramledger replay` on real checkpoints: inspect, verify, export."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger.replay import Field, Frames, ReplayBuffer, Schema, TableWindow, export
from tests.support.numbered_transitions import add, assert_true, filled

RAMLEDGER = Path(sys.executable).with_name("ramledger")


def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [str(RAMLEDGER), "replay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_inspect_says_what_is_there(tmp_path: Path) -> None:
    buffer = filled(800, 4000)
    buffer.save(tmp_path)
    add(buffer, 800, 200)
    saved = buffer.save(tmp_path)
    done = run("inspect", tmp_path, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["schema"] == "ramledger.replay.inspect/1"
    assert (found["transitions"], found["capacity"], found["total_added"]) == (1000, 4000, 1000)
    assert (found["number"], found["saves"]) == (2, [1, 2])
    assert found["checkpoint_bytes"] == saved.checkpoint_bytes
    assert found["never_reached_bytes"] == buffer.reserved_bytes * 3 // 4
    text = run("inspect", tmp_path).stdout
    assert "1,000 of 4,000 (25%)" in text
    assert "right size" in text


def test_a_capacity_that_is_reached_is_not_mentioned(tmp_path: Path) -> None:
    filled(900, 800).save(tmp_path)
    assert "right size" not in run("inspect", tmp_path).stdout


def test_verify_names_what_is_damaged(tmp_path: Path) -> None:
    buffer = filled(800)
    buffer.save(tmp_path)
    add(buffer, 800, 200)
    buffer.save(tmp_path)
    done = run("verify", tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("whole") == 2
    segment = max(tmp_path.glob("*.seg"))
    data = bytearray(segment.read_bytes())
    data[-20] ^= 1
    segment.write_bytes(data)
    done = run("verify", tmp_path, "--json")
    assert done.returncode == 3
    newest, before = json.loads(done.stdout)["saves"]
    assert not newest["whole"]
    assert segment.name in newest["problems"][0]
    assert before["whole"]


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_a_folder_without_a_checkpoint(tmp_path: Path, verb: str) -> None:
    done = run(verb, tmp_path)
    assert done.returncode == 1
    assert "no checkpoint" in done.stderr
    assert "hint" in done.stderr


def test_export_to_npz_and_never_over_a_file(tmp_path: Path) -> None:
    filled(900, 800).save(tmp_path / "saves")
    target = tmp_path / "out.npz"
    done = run("export", tmp_path / "saves", target)
    assert (done.returncode, done.stderr) == (0, "")
    with np.load(target) as found:
        assert found["rewards"].tolist() == list(range(100, 900))
        assert found["observations"].shape == (800, 40)
        assert (found["next_observations"] - found["observations"] == 1).all()
        assert found["terminations"].sum() == 16
    again = run("export", tmp_path / "saves", target)
    assert again.returncode == 1
    assert "exists" in again.stderr
    assert run("export", tmp_path / "saves", target, "--force").returncode == 0
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.npz"]
    assert_true(ReplayBuffer.load(tmp_path / "saves"))


def test_export_of_dicts_stacks_and_tables(tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    schema = Schema(
        {"market": TableWindow("m", 5), "frames": Frames((2,), "uint8", 3)},
        extra={"cost": Field((), "float64")},
    )
    buffer = ReplayBuffer(schema, 30, tables={"m": table})
    stack = np.zeros((3, 2), np.uint8)
    for at in range(4, 40):
        later = np.concatenate([stack[1:], np.full((1, 2), at, np.uint8)])
        here = {"market": at, "frames": stack}
        buffer.add(here, 0.0, at, {"market": at + 1, "frames": later}, at == 20, cost=at / 2)
        stack = later
    buffer.save(tmp_path / "saves")
    np.save(tmp_path / "m.npy", table)
    target = tmp_path / "out.npz"
    done = run("export", tmp_path / "saves", target, "--table", f"m={tmp_path / 'm.npy'}", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["columns"]["observations/market"] == [30, 5, 3]
    with np.load(target) as found:
        for number, at in enumerate(found["rewards"].astype(int)):
            assert np.array_equal(found["observations/market"][number], table[at - 4 : at + 1])
            assert found["observations/frames"][number, -1, 0] == max(at - 1, 0) * (at > 4)
            assert found["cost"][number] == at / 2


@pytest.mark.parametrize(("suffix", "package"), [(".h5", "h5py"), (".parquet", "pyarrow")])
def test_export_for_other_tools(tmp_path: Path, suffix: str, package: str) -> None:
    library = pytest.importorskip(package)
    buffer = filled(900, 800)
    target = tmp_path / f"out{suffix}"
    export(buffer, target)
    if package == "h5py":
        with library.File(target) as file:
            assert file["rewards"][:].tolist() == list(range(100, 900))
            assert file["observations"].shape == (800, 40)
            assert (file["observations"][:] == buffer.get(buffer.ordered()).obs).all()
    else:
        from importlib import import_module

        read: Any = import_module("pyarrow.parquet").read_table(target)
        assert read["rewards"].to_pylist() == list(range(100, 900))
        assert len(read["observations"][0].as_py()) == 40


def test_a_missing_package_and_an_unknown_format_are_named(tmp_path: Path) -> None:
    filled(10).save(tmp_path / "saves")
    done = run("export", tmp_path / "saves", tmp_path / "out.csv")
    assert done.returncode == 1
    assert ".npz" in done.stderr
