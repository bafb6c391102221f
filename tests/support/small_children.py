"""Real processes to measure: a Child holds where it says so, `as_nobody` loses all privileges."""

import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until

PRELUDE = """
import ctypes, json, mmap, os, sys
def address(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
def hold(**facts):
    print(json.dumps(facts), flush=True)
    if not sys.stdin.readline():
        os._exit(0)
"""


class Child:
    """A Python program that says its facts with hold(), and waits there until next()."""

    def __init__(self, code: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        self.pid = self.process.pid
        self.facts = self._read()

    def next(self) -> dict[str, Any]:
        """Let the program run to its next hold()."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._read()

    def end(self, *, reap: bool = True) -> None:
        """Kill it; unreaped it stays a zombie."""
        self.process.kill()
        if reap:
            self.process.wait()
        else:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the program ended with code {self.process.wait()}"
        facts: dict[str, Any] = json.loads(line)
        # what it touches on its way from print() to read() would differ between two readings
        wait_until(lambda: state_of(self.pid) in "SZ")
        return facts


def state_of(pid: int) -> str:
    """The state of the first thread: S when it sleeps, Z when it has ended."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0]


def call_as_nobody(function: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> Any:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads that other tests left; the fork only reads /proc
        warnings.simplefilter("ignore", DeprecationWarning)
        forked = os.fork()
    if forked == 0:
        try:
            before()
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            outcome = (True, function())
        except BaseException as error:
            outcome = (False, error)
        with open(writing, "wb") as pipe:
            pickle.dump(outcome, pipe)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        succeeded, outcome = pickle.load(pipe)
    os.waitpid(forked, 0)
    if not succeeded:
        raise outcome
    return outcome
