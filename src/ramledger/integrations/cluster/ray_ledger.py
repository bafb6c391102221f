"""The books of a Ray cluster: what every process last said, and one recording a run.

It lives in one named actor, and knows nothing of Ray itself. Its memory and its recording stay
bounded, however many workers there are and however long they run.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ramledger.diagnose.cluster_verdicts import DRIVER
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.verdict import diagnose
from ramledger.errors import RecordingError
from ramledger.recording import RecordingWriter
from ramledger.run.model import Run
from ramledger.user_files import current_directory

ENV_RUNNER = "env runner"
_PIDS = 1 << 22  # Linux hands out smaller ones: those of the second node are moved up by as much
_MOST_ROWS = 20_000  # levels written before the next ones become half as frequent
_LEAST_ITERATIONS, _MOST_ITERATIONS = 16, 128
_SETTLED_REPORTS = 3  # growth counts from here: the first ones are start-up

Statement = Mapping[str, Any]


@dataclass(slots=True)
class _Process:
    """One process as it last reported."""

    pid: int  # unique in the recording
    name: str
    role: str
    node: str
    levels: list[int]  # anon, file, shmem, swap, threads
    reports: int = 0
    settled_bytes: int = 0
    is_fresh: bool = True

    @property
    def rss_bytes(self) -> int:
        return sum(self.levels[:3])

    @property
    def growth_bytes(self) -> int:
        return self.levels[0] - self.settled_bytes if self.reports > _SETTLED_REPORTS else 0


@dataclass(slots=True)
class _Run:
    """One algorithm: its processes and its recording."""

    writer: RecordingWriter | None
    began: float
    processes: dict[tuple[str, int], _Process] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    stride: int = 1
    written: int = 0  # samples at this stride
    peak_bytes: int = 0
    sampled_at: float = 0.0

    def now(self) -> float:
        """Seconds since the run began."""
        return round(time.monotonic() - self.began, 3)

    def write(self, event: dict[str, Any], *, vital: bool = False) -> None:
        if self.writer is not None:
            named = {"event": event.pop("event"), "t": event.pop("t", self.now())}
            self.writer.write(named | event, vital=vital)


class ClusterLedger:
    """What the named actor runs. Every call is small and answers at once."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    def begin(self, run: str, path: str, header: Mapping[str, Any], force: bool) -> str:
        """Open the books of a run; the answer is what went wrong, or ''."""
        try:
            writer = RecordingWriter(path, header, force=force) if path else None
        except RecordingError as error:
            self._runs[run] = _Run(None, time.monotonic())
            return error.message
        self._runs[run] = _Run(writer, time.monotonic())
        return ""

    def note(self, run: str, statement: Statement) -> None:
        """One process reports; of a run that is over it is too late."""
        if run in self._runs:
            self._book(self._runs[run], statement)

    def iteration(
        self,
        run: str,
        number: int,
        statement: Statement,
        store: Mapping[str, int] | None,
        stores: Mapping[str, Mapping[str, int]] | None = None,
    ) -> dict[str, Any]:
        """The driver ends an iteration, and gets the summary over all processes."""
        books = self._runs.get(run)
        if books is None:
            return {}
        self._book(books, statement)
        for node, held in (stores or {}).items():
            if node in books.nodes:
                books.nodes[node]["store_bytes"] = int(held["used_bytes"])
        if number % books.stride == 0:
            _write_sample(books, number, store)
        return _summary(books, store)

    def end(self, run: str) -> tuple[Diagnosis | None, int]:
        """Close the books: the verdict, and how many other runs go on."""
        books = self._runs.pop(run, None)
        if books is None or books.writer is None:
            return None, len(self._runs)
        books.write({"event": "end", "exit_code": None, "peak_bytes": books.peak_bytes,
                     "dropped_events": books.writer.dropped_events}, vital=True)  # fmt: skip
        books.writer.close()
        return diagnose(Run.read(books.writer.path)), len(self._runs)

    def _book(self, books: _Run, statement: Statement) -> None:
        key = (str(statement["node"]), int(statement["pid"]))
        found = books.processes.get(key)
        if found is None:
            found = _admit(books, key, statement)
        found.levels = [int(level) for level in statement["levels"]]
        found.is_fresh = True
        found.reports += 1
        if found.reports == _SETTLED_REPORTS:
            found.settled_bytes = found.levels[0]
        books.nodes[key[0]]["used_bytes"] = int(statement["node_used_bytes"])
        look = statement.get("look")
        if look:
            # of when it began; the last ones are of the last iteration: nothing ran since
            began = books.now() - float(look["cost_seconds"])
            at = books.sampled_at if statement.get("is_last") else began
            books.write({**look, "t": at, "pid": found.pid})


def _admit(books: _Run, key: tuple[str, int], statement: Statement) -> _Process:
    """A process that was not seen before; one it stands in for is gone."""
    node, pid = key
    name, role = str(statement["name"]), str(statement["role"])
    for other_key, other in list(books.processes.items()):
        if other.name == name:
            del books.processes[other_key]
            books.write({"event": "process-end", "pid": other.pid})
    if node not in books.nodes:
        books.nodes[node] = {**statement["limits"], "number": len(books.nodes)}
        books.write({"event": "node", "node": node, **statement["limits"]})
    unique = pid + _PIDS * books.nodes[node]["number"]
    books.write(
        {
            "event": "process", "pid": unique, "command": f"ray: {name}", "agent": False,
            "name": name, "role": role, "node": node, "node_pid": pid,
        }
    )  # fmt: skip
    found = books.processes[key] = _Process(unique, name, role, node, [0] * 5)
    return found


def _write_sample(books: _Run, number: int, store: Mapping[str, int] | None) -> None:
    rows = books.processes.values()
    total = sum(row.levels[0] for row in rows)
    books.peak_bytes = max(books.peak_bytes, total)
    books.sampled_at = books.now()
    for row in rows:
        if row.role == DRIVER:
            anon, file, shmem = row.levels[:3]
            books.write(
                {
                    "event": "generation", "pid": row.pid, "generation": number,
                    "rss_bytes": row.rss_bytes, "anon_bytes": anon, "file_bytes": file,
                    "shmem_bytes": shmem, "origin": "framework",
                }
            )  # fmt: skip
    books.write(
        {
            "event": "sample", "generation": number,
            "processes": {str(row.pid): row.levels for row in rows},
            "stale": [row.pid for row in rows if not row.is_fresh],
            "nodes": {node: facts.get("used_bytes", 0) for node, facts in books.nodes.items()},
            "stores": {node: facts.get("store_bytes", 0) for node, facts in books.nodes.items()},
            **({"object_store": dict(store)} if store else {}),
        }
    )  # fmt: skip
    for row in rows:
        row.is_fresh = False
    books.written += 1
    most = min(_MOST_ITERATIONS, max(_LEAST_ITERATIONS, _MOST_ROWS // max(1, len(rows))))
    if books.written >= (most if books.stride == 1 else most // 2):
        books.stride, books.written = books.stride * 2, 0


def _summary(books: _Run, store: Mapping[str, int] | None) -> dict[str, Any]:
    """What the driver puts into an iteration's result, in bytes."""
    rows = list(books.processes.values())
    runners = [row for row in rows if row.role == ENV_RUNNER]
    result: dict[str, Any] = {
        "processes": len(rows),
        "anon_bytes": sum(row.levels[0] for row in rows),
        "driver_rss_bytes": next((row.rss_bytes for row in rows if row.role == DRIVER), 0),
        "learners_rss_bytes": sum(row.rss_bytes for row in rows if row.role == "learner"),
        "nodes": {node: _node(facts) for node, facts in books.nodes.items()},
    }
    if runners:
        sizes = [row.rss_bytes for row in runners]
        fastest = max(runners, key=lambda row: row.growth_bytes)
        result["env_runners"] = {
            "rss_mean_bytes": sum(sizes) // len(sizes),
            "rss_max_bytes": max(sizes),
            "growth_max_bytes": fastest.growth_bytes,
            "growth_max_name": fastest.name,
        }
    if store:
        result["object_store"] = dict(store)
    return result


def _node(facts: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("used_bytes", "limit_bytes", "kill_bytes", "store_bytes")
    return {name: facts[name] for name in shown if name in facts}


def header(command: list[str], run: str) -> dict[str, Any]:
    """The first line of a cluster's recording."""
    return {
        "started_at": time.time(),
        "command": command,
        "directory": current_directory(),
        "cluster": {"kind": "ray", "run": run},
    }
