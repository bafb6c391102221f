"""Plans against real trainings: one job run in a process of its own, and graded."""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from ramledger.plan.budget import Budget, Span, Where
from ramledger.plan.make_plan import plan
from tests.support.places import DATA, TESTS

JOBS = DATA / "plan_jobs.json"
SUPPORT = TESTS / "support"


def jobs(table: str) -> dict[str, dict[str, Any]]:
    """The jobs of one table of plan_jobs.json, by their id."""
    entries = json.loads(JOBS.read_text(encoding="utf-8"))[table]
    return {entry.pop("id"): {"torch_threads": 1, **entry} for entry in entries}


@dataclass(frozen=True)
class Outcome:
    """What the kernel said of one job, and what its plan had said."""

    name: str
    measured: dict[str, int]
    budget: Budget

    @property
    def peak(self) -> Span:
        return self.budget.main

    @property
    def error(self) -> float:
        return self.peak.expected / self.measured["peak_bytes"] - 1

    @property
    def is_inside(self) -> bool:
        return self.peak.low <= self.measured["peak_bytes"] <= self.peak.high

    @property
    def parameter_bytes(self) -> int:
        return sum(
            row.span.expected for row in self.budget.rows if row.account.startswith("networks/")
        )

    @property
    def workers(self) -> Span:
        spans = [row.span for row in self.budget.rows_in(Where.WORKERS)]
        return sum(spans, Span.exact(0))


def measure(name: str, job: dict[str, Any]) -> Outcome:
    """Run one job, and plan it."""
    is_sb3 = job.get("framework", "sb3") == "sb3"
    program = SUPPORT / ("plan_job.py" if is_sb3 else "single_file_job.py")
    command = [sys.executable, str(program), json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-500:]}")
    answer = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return Outcome(name, json.loads(answer[-1]), plan(job))
