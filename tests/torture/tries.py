"""One try: a folder, a source of chance and processes of its own, all gone when it is over.

A part is a number of tries. Two run side by side, each with a deadline, and Ctrl-C ends them all.
"""

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
PYTHON = sys.executable
RAMLEDGER = str(Path(sys.executable).with_name("ramledger"))

# only a hang takes that long; nothing is judged by its speed
DEADLINE_SECONDS = 180.0

_MARK = "RAMLEDGER_TORTURE"
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


class HarmedError(Exception):
    """A promise was broken; the text says which."""


class SkippedError(Exception):
    """This machine cannot show it; the text says why."""


def require(is_so: object, otherwise: str) -> None:
    if not is_so:
        raise HarmedError(otherwise)


def adopt_orphans() -> None:
    """Become the parent of what a killed recorder leaves, so that its exit code can be read."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@dataclass
class Try:
    """What one try works with."""

    name: str
    number: int
    random: random.Random
    folder: Path
    mark: str

    def environment(self, **more: str) -> dict[str, str]:
        """Ours without what would change a program, with places for sockets and drafts."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "RAMLEDGER_"))
        }
        places = {"XDG_RUNTIME_DIR": str(self.folder / "r"), "TMPDIR": str(self.folder / "t")}
        return {**kept, **places, "PYTHONDONTWRITEBYTECODE": "1", _MARK: self.mark, **more}

    def start(
        self, *command: str | Path, environment: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """A process in a session of its own; its three streams are pipes unless told otherwise."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        options = {**pipes, "cwd": self.folder, "text": True, "errors": "replace", **options}
        return subprocess.Popen(
            [str(word) for word in command],
            env=self.environment() if environment is None else dict(environment),
            start_new_session=True,
            **options,
        )

    def finish(
        self, process: subprocess.Popen[str], what: str, seconds: float = DEADLINE_SECONDS
    ) -> tuple[int, str, str]:
        """Its exit code, output and complaints."""
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise HarmedError(f"{what} hangs") from None
        return process.returncode, out or "", err or ""

    def ramledger(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Run our command to its end: it never shows a traceback."""
        process = self.start(RAMLEDGER, *arguments)
        code, out, err = self.finish(process, f"ramledger {arguments[0]}")
        require("Traceback" not in err, f"ramledger {arguments[0]}: {last_line(err)}")
        return code, out, err


def last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:300]


def wait_for(is_so: Callable[[], bool], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        require(time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s")
        time.sleep(0.01)


@contextmanager
def one_try(name: str, number: int, seed: int) -> Iterator[Try]:
    folder = Path(tempfile.mkdtemp(prefix="torture-"))
    for place in ("r", "t"):
        (folder / place).mkdir(mode=0o700)
    mark = f"{os.getpid()}-{folder.name}"
    try:
        yield Try(name, number, random.Random(f"{seed}/{name}/{number}"), folder, mark)
    finally:
        kill_marked(mark)
        shutil.rmtree(folder, ignore_errors=True)


def kill_marked(mark: str) -> None:
    """End every process that carries the mark, until there is none: they may be forking."""
    deadline = time.monotonic() + 20
    while (pids := list(_marked(mark))) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with suppress(OSError):  # only orphans that became ours can be waited for
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)


def _marked(mark: str) -> Iterator[int]:
    wanted = f"{_MARK}={mark}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and int(entry) != os.getpid():
            with suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    yield int(entry)


# ---- many tries -------------------------------------------------------------------------------


@dataclass
class Row:
    """What was tried, how often, and what went wrong."""

    what: str
    tries: int = 0
    failures: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    remark: str = ""
    seconds: float = 0.0

    def add(self, failure: str, skipped: str = "") -> None:
        if skipped:
            self.skipped.append(skipped)
            return
        self.tries += 1
        if failure:
            self.failures.append(failure)


@dataclass
class Work:
    """How all parts are run: the seed, the width, and who has asked to stop."""

    seed: int
    workers: int
    only: str = ""
    is_stopped: threading.Event = field(default_factory=threading.Event)
    _marks: set[str] = field(default_factory=set)

    def run(
        self, row: Row, names: Sequence[str], attempt: Callable[[Try], None], workers: int = 0
    ) -> Row:
        """Attempt once for each name, so many side by side; a line on stderr tells how far."""
        began = time.monotonic()
        with ThreadPoolExecutor(workers or self.workers) as pool:
            futures: dict[Future[tuple[str, str]], str] = {
                pool.submit(self._once, row.what, number, name, attempt): name
                for number, name in enumerate(names)
            }
            try:
                for future in as_completed(futures):
                    failure, skipped = future.result()
                    row.add(failure, skipped)
                    self._progress(row, len(names), failure, skipped)
            except KeyboardInterrupt:
                self.stop()
                raise
            finally:
                row.seconds += time.monotonic() - began
                if sys.stderr.isatty():
                    print(file=sys.stderr)
        return row

    def stop(self) -> None:
        """Begin nothing more, and end what runs."""
        self.is_stopped.set()
        for mark in list(self._marks):
            kill_marked(mark)

    def _once(
        self, what: str, number: int, name: str, attempt: Callable[[Try], None]
    ) -> tuple[str, str]:
        if self.is_stopped.is_set():
            return "", "stopped"
        try:
            with one_try(name, number, self.seed) as current:
                self._marks.add(current.mark)
                try:
                    attempt(current)
                finally:
                    self._marks.discard(current.mark)
        except SkippedError as reason:
            return "", f"{name}: {reason}"
        except HarmedError as harm:
            return f"{name} (try {number}): {harm}", ""
        except Exception as error:
            return f"{name} (try {number}): {type(error).__name__}: {error}", ""
        return "", ""

    def _progress(self, row: Row, total: int, failure: str, skipped: str) -> None:
        done = row.tries + len(row.skipped)
        is_terminal = sys.stderr.isatty()
        start, end = ("\r\x1b[K", "") if is_terminal else ("", "\n")
        for text in filter(None, (failure, skipped and f"left out: {skipped}")):
            print(f"{start}  {text}", file=sys.stderr)
        line = f"{row.what}: {done} of {total}, {len(row.failures)} failed"
        if is_terminal or done == total or done % max(1, total // 10) == 0:
            print(f"{start}{line}", end=end, file=sys.stderr, flush=True)
