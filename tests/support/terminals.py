"""A terminal for tests: a program in a session of its own, with a pseudo-terminal as its own."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from ramledger.measure.known_process import KnownProcess

# a session leader takes its terminal as the controlling one: tty_ioctl(4)
_IN_SESSION = (
    "import fcntl, os, signal, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); "  # under nohup it is ignored
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|[78D=>])")


class Terminal:
    """Runs a command on a terminal of its own; everything it shows is kept in `shown`."""

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        rows: int = 40,
        columns: int = 100,
        environment: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        self.master, slave = os.openpty()
        self.resize(rows, columns)
        # a size in the environment, as pytest-xdist sets it, would win over the terminal's own
        base = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        base |= {"TERM": "xterm-256color", "PYTHONUTF8": "1", "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _IN_SESSION, *command],
            stdin=slave, stdout=slave, stderr=slave,
            env={**base, **(environment or {})}, cwd=cwd,
        )  # fmt: skip
        self.known = KnownProcess.of(self.process.pid)
        os.close(slave)
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.known.send_to_group(signal.SIGKILL)
        self.process.wait(90)
        os.close(self.master)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def read(self, seconds: float) -> str:
        """Whatever is shown within that time, at least a moment's worth."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:  # the last program on it has ended
                    break
                if not data:
                    break
                self.shown += data.decode("utf-8", "replace")
        return self.shown

    def expect(self, text: str, seconds: float = 90.0) -> str:
        """Read until `text` is shown after what was expected before; returns what led to it."""
        deadline = time.monotonic() + seconds
        start = getattr(self, "_expected", 0)
        while (at := self.shown.find(text, start)) < 0:
            assert time.monotonic() < deadline, f"{text!r} not in {self.shown[start:]!r}"
            before = len(self.shown)
            self.read(0.1)
            if len(self.shown) == before and self.process.poll() is not None:
                self.read(0.2)
                assert text in self.shown[start:], f"{text!r} not in {self.shown[start:]!r}"
        self._expected = at + len(text)
        return self.shown[start:at]

    def wait(self, seconds: float = 90.0) -> int:
        """The exit code, negative for a signal."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running: {self.shown[-2000:]!r}"
            self.read(0.05)
        self.read(0.2)
        return self.process.returncode

    def attributes(self) -> list[object]:
        """The settings of the terminal: termios(3)."""
        return list(termios.tcgetattr(self.master))


def without_escapes(text: str) -> str:
    """What is left of a terminal's output without cursor movements and colors."""
    return _ESCAPES.sub("", text)
