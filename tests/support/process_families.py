"""Real families of processes for tests: a program says its facts, the kernel tells the truth."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

MIB = 1 << 20
# status counts in batches per CPU; what it says may be behind by that much
LAG_BYTES = 1 * MIB

PRELUDE = """
import ctypes, json, mmap, os, signal, sys, threading, time
def hold(**facts):
    print(json.dumps(facts), flush=True)
    sys.stdin.readline()
"""


class Program:
    """A Python program that says facts with hold(), and goes on with next()."""

    def __init__(self, code: str) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", PRELUDE + code], **pipes)
        self.pid = self.process.pid
        self.facts = self._read()

    def next(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait()}"
        facts: dict[str, Any] = json.loads(line)
        return facts

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


FAMILY = """
def child(depth):
    pid = os.fork()
    if not pid:
        if depth:
            child(depth - 1)
        os.write(telling, f"{os.getpid()}\\n".encode())
        signal.pause()
        os._exit(0)
    return pid
told, telling = os.pipe()
def names(count):
    text = b""
    while text.count(b"\\n") < count:
        text += os.read(told, 1000)
    return sorted(map(int, text.split()))
"""


def smaps_bytes(pid: int, *names: str) -> dict[str, int]:
    """Fields of smaps_rollup: the kernel walks the page tables, nothing lags."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    rows = (line.split() for line in text.splitlines()[1:])
    found = {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}
    return {name: found[name] for name in names}


def kill(*pids: int) -> None:
    """Kill processes that tests started; what else has such a pid by now is left alone."""
    for pid in pids:
        with suppress(ProcessLookupError, FileNotFoundError):
            handle = os.pidfd_open(pid)
            try:
                if b"PYTEST_CURRENT_TEST=" in Path(f"/proc/{pid}/environ").read_bytes():
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)
