"""Every file that a user can name, given as what it should not be: an answer or one clear error.

One process a verb tries them all, with little memory: what waits or reads on and on shows there.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramledger.recording import RECORDING_SCHEMA

# main() in a process that may not take much memory, for one odd file after the other
DRIVER = """
import contextlib, io, json, resource, sys
from ramledger.cli.main import main
for name, arguments in json.loads(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_AS, (1 << 31, resource.RLIM_INFINITY))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    print(json.dumps([name, code, err.getvalue()]), flush=True)
"""
GOOD = json.dumps({"schema": RECORDING_SCHEMA}) + "\n" + json.dumps({"event": "end", "t": 1}) + "\n"

NOT_FILES = ("fifo", "folder", "zero", "full", "null", "socket")
SAID = {
    "fifo": "it is a FIFO", "folder": "it is a directory", "socket": "it is a socket",
    "zero": "it is a device", "full": "it is a device", "null": "it is a device",
    "dangling": "a link to nowhere, which does not exist", "missing": "No such file",
    "denied": "Permission denied",
}  # fmt: skip


class OddFiles:
    """A folder of paths, each something else than a good file; some read as empty or garbage."""

    def __init__(self, folder: Path, suffix: str = "") -> None:
        self.folder = folder
        self._suffix = suffix
        folder.mkdir()
        os.mkfifo(self.path("fifo"))
        os.mkdir(self.path("folder"))
        for device in ("zero", "full", "null"):
            os.symlink(f"/dev/{device}", self.path(device))
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self.path("socket"))
        os.symlink("nowhere", self.path("dangling"))
        Path(self.path("empty")).touch()
        with open(self.path("sparse"), "wb") as file:
            file.truncate(10 << 30)
        Path(self.path("garbage")).write_bytes(bytes(range(256)) * 500)
        if os.geteuid() != 0:
            Path(self.path("denied")).touch(0)

    def path(self, name: str) -> str:
        return str(self.folder / (name + self._suffix))

    @property
    def names(self) -> list[str]:
        found = [*NOT_FILES, "dangling", "missing", "empty", "sparse", "garbage"]
        return found if os.geteuid() == 0 else [*found, "denied"]


def tried(cases: list[tuple[str, list[str]]], cwd: Path) -> Iterator[tuple[str, int, str]]:
    """What the command line answers to each case, in one process."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(cases)],
        capture_output=True, text=True, timeout=300, cwd=cwd, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == len(cases), done.stderr
    for line in lines:
        name, code, err = json.loads(line)
        yield name, code, err


def state_of(folder: Path) -> dict[str, Any]:
    """What is there: kinds, sizes and contents of small files."""
    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        status = path.lstat()
        is_small = path.is_file() and not path.is_symlink() and status.st_size < 1 << 20
        content = path.read_bytes() if is_small and os.access(path, os.R_OK) else b""
        found[path.name] = (status.st_mode, status.st_size, content)
    return found


# the command line up to the file to read, and how its name ends
READING = {
    "diagnose": (["diagnose"], ".ledger.jsonl"),
    "diagnose --compare": (["diagnose", "good.ledger.jsonl", "--compare"], ".ledger.jsonl"),
    "report": (["report", "--json"], ".ledger.jsonl"),
    "report --plan": (["report", "good.ledger.jsonl", "--json", "--plan"], ".json"),
    "serve": (["serve"], ".ledger.jsonl"),
    "plan script": (["plan"], ".py"),
    "plan TOML": (["plan"], ".toml"),
    "plan YAML": (["plan"], ".yaml"),
    "plan JSON": (["plan"], ".json"),
    "plan --diff": (["plan", "good.toml", "--diff"], ".toml"),
    "replay export --table": (["replay", "export", "none", "x.npz", "--table"], ".npy"),
}
GOOD_PLAN = 'algorithm = "PPO"\nobservation = "8"\naction = "discrete:2"\n'


@pytest.mark.parametrize("verb", READING)
def test_what_is_no_file_is_refused_at_once(verb: str, tmp_path: Path) -> None:
    words, suffix = READING[verb]
    odd = OddFiles(tmp_path / "odd", suffix)
    (tmp_path / "good.ledger.jsonl").write_text(GOOD)
    (tmp_path / "good.toml").write_text(GOOD_PLAN)
    before = state_of(odd.folder)
    equals = "t=" if verb.endswith("--table") else ""
    cases = [(name, [*words, equals + odd.path(name)]) for name in odd.names]
    for name, code, err in tried(cases, tmp_path):
        line, hint = err.splitlines()
        assert code == 1, (name, err)
        assert hint.startswith("  hint: ")
        assert name in line
        assert SAID.get(name, "") in line
        assert "memory" not in line
    assert state_of(odd.folder) == before


TRAIN_READING = {
    "train CONFIG": ([], ".toml"),
    "train --data CSV": (["--data"], ".csv"),
    "train --data Parquet": (["--data"], ".parquet"),
}


@pytest.mark.parametrize("verb", TRAIN_READING)
def test_a_training_that_cannot_be_read_leaves_nothing(verb: str, tmp_path: Path) -> None:
    words, suffix = TRAIN_READING[verb]
    odd = OddFiles(tmp_path / "odd", suffix)
    (tmp_path / "work").mkdir()
    names = [name for name in odd.names if (verb, name) != ("train CONFIG", "empty")]
    cases = [(name, ["train", *words, odd.path(name), "--quiet"]) for name in names]
    for name, code, err in tried(cases, tmp_path / "work"):
        line, hint = err.splitlines()
        assert (code, name in line, SAID.get(name, "") in line) == (1, True, True), err
        assert hint.startswith("  hint: ")
    assert list((tmp_path / "work").iterdir()) == []


# the command line up to the file to write; with force where it has that
WRITING = {
    "run": (["run", "--quiet", "--force", "--out"], ["--", "true"]),
    "report": (["report", "good.ledger.jsonl", "--force", "--out"], []),
    "explain": (["explain", str(os.getpid()), "--svg"], []),
    "check-env": (["check-env", "CartPole-v1", "--force", "--out"], []),
}


@pytest.mark.parametrize("verb", WRITING)
def test_nothing_but_a_file_is_written_to_or_replaced(verb: str, tmp_path: Path) -> None:
    before, after = WRITING[verb]
    odd = OddFiles(tmp_path / "odd")
    (tmp_path / "good.ledger.jsonl").write_text(GOOD)
    state = state_of(odd.folder)
    cases = [(name, [*before, odd.path(name), *after]) for name in NOT_FILES]
    cases += [("no-such", [*before, odd.path("no-such/file"), *after])]
    for name, code, err in tried(cases, tmp_path):
        line, hint = [line for line in err.splitlines() if "recording:" not in line]
        assert code == 1, (name, err)
        assert hint.startswith("  hint: choose another")
        assert name in line
        if verb != "explain":
            assert SAID.get(name, "No such file or directory") in line
    assert state_of(odd.folder) == state


@pytest.mark.parametrize("verb", ["run", "report", "check-env"])
def test_nothing_is_overwritten_without_force(verb: str, tmp_path: Path) -> None:
    before, after = WRITING[verb]
    odd = OddFiles(tmp_path / "odd")
    (tmp_path / "good.ledger.jsonl").write_text(GOOD)
    state = state_of(odd.folder)
    words = [word for word in before if word != "--force"]
    names = [name for name in odd.names if name != "missing"]
    for name, code, err in tried([(n, [*words, odd.path(n), *after]) for n in names], tmp_path):
        assert code == 1, (name, err)
        assert "exists already" in err
        assert "--force" in err
    assert state_of(odd.folder) == state


def test_a_page_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "good.ledger.jsonl").write_text(GOOD)
    (tmp_path / "target.html").write_text("old")
    (tmp_path / "link.html").symlink_to("target.html")
    words = ["report", "good.ledger.jsonl", "--force", "--out", "link.html"]
    ((_, code, err),) = tried([("link", words)], tmp_path)
    assert (code, err) == (0, "")
    assert (tmp_path / "link.html").is_symlink()
    assert "ramledger</title>" in (tmp_path / "target.html").read_text()
    assert not list(tmp_path.glob("*.part"))


def test_a_plan_is_not_kept_waiting_by_its_own_cache(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(GOOD_PLAN)
    from ramledger.plan.baseline import cache_path

    cache = tmp_path / "ramledger" / cache_path().name
    cache.parent.mkdir()
    os.mkfifo(cache)
    done = subprocess.run(
        [sys.executable, "-m", "ramledger", "plan", "good.toml"],
        cwd=tmp_path, timeout=100, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0
