"""Starts a program of tests/programs and asks for its statement, in one of two ways.

`claimed`: the program opened its ledger and claimed its roots. `bare`: no code change at all, the
agent was there from the start. `alone`: ramledger is not in the process at all.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, Self

from ramledger.agent.launch_environment import environment_with_agent
from ramledger.attach.enter import ask_inside
from ramledger.ledger import Statement
from tests.support.kernel_truth import Mapping, resident_bytes, smaps, stack_mappings
from tests.support.places import PROGRAMS


class HeldProgram:
    """A program that holds its memory until we let it go."""

    def __init__(self, name: str, way: str, *arguments: str, options: Sequence[str] = ()) -> None:
        self.way = way
        command = [sys.executable, *options, str(PROGRAMS / f"{name}.py"), *arguments]
        environment = dict(os.environ)
        if way == "claimed":
            command.append("--claim")
        elif way == "bare":
            environment = environment_with_agent(environment)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        try:
            first = self._line()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.pid: int = first["pid"]
        self.truth: dict[str, Any] = first["truth"]

    def statement(self) -> dict[str, Any]:
        """The statement as JSON, however this program is asked."""
        if self.way == "bare":
            return ask_inside(self.pid, {"verb": "statement", "top": 20}, method="agent")
        return self.say("snapshot")

    def say(self, line: str) -> dict[str, Any]:
        """One line to the program, and its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
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


@dataclass(frozen=True, slots=True)
class Observation:
    """One run of a program: what it says of itself, what the ledger says, what the kernel says.

    `before` and `after` are readings of smaps on both sides of the statement, `resident` what the
    page table says of each of the program's arrays, `stacks` of its threads' stacks.
    """

    truth: dict[str, Any]
    document: dict[str, Any]
    statement: Statement
    before: list[Mapping]
    after: list[Mapping]
    resident: dict[str, int]
    stacks: int


@cache
def observe(name: str, way: str) -> Observation:
    """Run a program once, ask it, read the kernel's truth and let it go."""
    with HeldProgram(name, way) as program:
        before = smaps(program.pid)
        document = program.statement()
        after = smaps(program.pid)
        arrays = program.truth.get("arrays", {})
        return Observation(
            truth=program.truth,
            document=document,
            statement=Statement.from_dict(document),
            before=before,
            after=after,
            resident={
                field: resident_bytes(program.pid, address, address + size)
                for field, (address, size) in arrays.items()
            },
            stacks=sum(
                resident_bytes(program.pid, stack["start"], stack["stop"])
                for stack in stack_mappings(program.pid, after)
            ),
        )
