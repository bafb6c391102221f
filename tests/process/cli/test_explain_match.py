"""`ramledger explain --match NAME`: one process is explained, several are listed, none is said."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.slow_notice import without_slow_notice

COMMAND = Path(sys.executable).with_name("ramledger")
HOLDING = "import sys; held = bytearray(b'x') * int(sys.argv[2]); print('ready', flush=True); sys.stdin.read()"  # noqa: E501


def explain(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(COMMAND), "explain", "--no-calibrate", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    done.stderr = without_slow_notice(done.stderr)
    return done


@pytest.fixture
def name(tmp_path: Path) -> str:
    """That no other process has in its command line; a pattern would read it otherwise."""
    return f"train[{tmp_path.name}](x.py"


@pytest.fixture
def started() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def holding(stack: ExitStack, name: str, size_bytes: int) -> int:
    # it ends by itself when its stdin closes
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-I", "-c", HOLDING, name, str(size_bytes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process.pid


def test_the_only_one_is_explained(started: ExitStack, name: str) -> None:
    pid = holding(started, name, 1)
    done = explain("--match", name, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["pid"] == pid


def test_several_are_listed_the_largest_first_and_none_is_explained(
    started: ExitStack, name: str
) -> None:
    small, large = holding(started, name, 1), holding(started, name, 50 << 20)
    done = explain("--match", name, "--json")
    assert (done.returncode, done.stdout) == (1, "")
    head, first, second, error, hint = done.stderr.splitlines()
    assert head.split() == ["PID", "RSS", "age", "command"]
    assert [int(line.split()[0]) for line in (first, second)] == [large, small]
    assert float(first.split()[1]) > 50
    assert name in first and name in second
    assert error.startswith("ramledger: 2 processes have ")
    assert f"ramledger explain {large}" in hint


def test_none_is_an_error(name: str) -> None:
    done = explain("--match", name)
    assert (done.returncode, done.stdout) == (1, "")
    line, hint = done.stderr.splitlines()
    assert line.startswith("ramledger: no process has ")
    assert "ps -ef" in hint
