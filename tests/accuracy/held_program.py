"""Starts a program of tests/programs and asks for its statement, in one of two ways.

`claimed`: the program opened its ledger and claimed its roots. `bare`: no code change at all, the
agent was there from the start.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ramledger.account.enter import ask_inside
from ramledger.account.launch import environment_with_agent

PROGRAMS = Path(__file__).parent.parent / "programs"


class HeldProgram:
    """A program that holds its memory until we let it go."""

    def __init__(self, name: str, way: str) -> None:
        self.way = way
        arguments = [sys.executable, str(PROGRAMS / f"{name}.py")]
        environment = dict(os.environ)
        if way == "claimed":
            arguments.append("--claim")
        elif way == "bare":
            environment = environment_with_agent(environment)
        self.process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        first = self._line()
        self.pid: int = first["pid"]
        self.truth: dict[str, Any] = first["truth"]

    def statement(self) -> dict[str, Any]:
        """The statement as JSON, however this program is asked."""
        if self.way == "bare":
            return ask_inside(self.pid, {"verb": "statement", "top": 20}, way="agent")
        assert self.process.stdin is not None
        self.process.stdin.write("snapshot\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise AssertionError(f"the program ended with code {self.process.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def smaps_fields(pid: int) -> list[dict[str, Any]]:
    """An independent reading of smaps, as plain as can be: the truth the ledger is held to."""
    mappings: list[dict[str, Any]] = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            start, stop = (int(part, 16) for part in words[0].split("-"))
            path = " ".join(words[5:])
            mappings.append({"start": start, "stop": stop, "path": path})
        elif len(words) >= 2 and words[1].isdigit():
            mappings[-1][words[0].rstrip(":")] = int(words[1]) * 1024
    return mappings
