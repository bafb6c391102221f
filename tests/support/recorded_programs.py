"""Programs of tests/programs under `ramledger run`: the recording, and what each says of itself."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from ramledger.events import ProgramEndEvent, SampleEvent, SnapshotEvent
from ramledger.ledger import Statement
from ramledger.recording import Recording
from ramledger.run.model import Run
from tests.support.our_names import our_parts
from tests.support.places import PROGRAMS

COMMAND = str(Path(sys.executable).with_name("ramledger"))
AT_END = "end"
_SNAPSHOTS = ("snapshot", "names-snapshot")


@dataclass(frozen=True)
class Seen:
    """One snapshot: when it was taken, and every path that it names."""

    t: float
    statement: Statement
    paths: tuple[str, ...]

    def bytes_of(self, account: str) -> int:
        return sum(one.resident_bytes for one in self.statement.entries if one.account == account)


def paths_of(event: SnapshotEvent) -> tuple[str, ...]:
    """All names that a snapshot gives to what the program holds: accounts, containers, objects."""
    statement = event.statement
    return (
        *(one.account for one in statement.entries),
        *(one.path for one in event.containers),
        *(one.path for one in statement.large_objects),
    )


def snapshots_of(recording: Recording) -> list[SnapshotEvent]:
    """Snapshots from inside that were taken before the program ended; cheap ones too."""
    found = [cast(SnapshotEvent, one) for one in recording.events if one.kind in _SNAPSHOTS]
    ended = next((event.t for event in recording.of_type(ProgramEndEvent)), float("inf"))
    return [
        event
        for event in found
        if AT_END not in (getattr(event, "label", ""), event.phase) and event.t < ended
    ]


@dataclass(frozen=True)
class RecordedProgram:
    """One run: its recording, its own truth line by line, and what `run` printed of it."""

    path: Path
    truth: tuple[dict[str, Any], ...]
    log: str

    @cached_property
    def recording(self) -> Recording:
        return Recording.read(str(self.path))

    @cached_property
    def diagnosis(self) -> dict[str, Any]:
        command = [COMMAND, "diagnose", "--json", str(self.path)]
        done = subprocess.run(command, capture_output=True, text=True)
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    @property
    def iterations(self) -> list[dict[str, Any]]:
        """What the program said at the end of each of its iterations."""
        return [line for line in self.truth if "iteration" in line]

    def seconds(self, line: dict[str, Any]) -> float:
        """When the program said a line, on the recording's clock."""
        started_at = self.recording.header.started_at
        assert started_at is not None
        return float(line["at"]) - started_at

    @property
    def training_began(self) -> float:
        return self.seconds(next(line for line in self.truth if "training" in line))

    @property
    def training_ended(self) -> float:
        return self.seconds(self.iterations[-1])

    @cached_property
    def snapshots(self) -> list[Seen]:
        """Those of the training; none of the start-up, none of the end."""
        return [
            Seen(event.t, event.statement, paths_of(event))
            for event in snapshots_of(self.recording)
            if self.training_began <= event.t <= self.training_ended
        ]

    @property
    def peak_bytes(self) -> int:
        """The most that the process had while it trained: the larger of two witnesses.

        Samples after the training count our own snapshot at the end, which is not the program's.
        """
        own = [int(line["peak_bytes"]) for line in self.iterations]
        samples = [
            memory.resident_bytes
            for event in self.recording.of_type(SampleEvent)
            if event.t <= self.training_ended
            for memory in event.processes.values()
        ]
        return max(*own, *samples)

    @property
    def is_seen_near_its_peak(self) -> bool:
        """Within 3 %; beside other tests, where the budget is less, the summary may say how far."""
        most = max(seen.statement.rss_bytes for seen in self.snapshots)
        is_said = "statement nearest to the peak" in self.log
        return most >= (0.9 if is_said else 0.97) * self.peak_bytes

    @property
    def peak_shown(self) -> float:
        """When the statement was taken that stands for the peak."""
        snapshots = Run.read(str(self.path)).main_snapshots
        assert snapshots is not None and snapshots.peak is not None
        return snapshots.peak.t

    @property
    def named_like_ours(self) -> dict[str, set[str]]:
        """Names that lead to what only ramledger has.

        A function that is a phase has a wrapper of ours, which leads to all that we have.
        """
        names = {path for seen in self.snapshots for path in seen.paths}
        theirs = [name for name in names if name.partition("/")[0] not in ("ramledger", "python")]
        return {name: parts for name in theirs if (parts := our_parts(name))}

    def names_with(self, *last_parts: str) -> set[str]:
        """Paths in snapshots of the training that end in one of these parts."""
        return {
            path
            for seen in self.snapshots
            for path in seen.paths
            if re.split(r"[.:/]", path)[-1] in last_parts
        }

    @property
    def printed_iterations(self) -> list[int]:
        """The numbers of the lines that `run` printed, once it has the last word on the loop."""
        told = self.log.rpartition("everything before was start-up")[2]
        lines = re.findall(r"^ramledger: (?:iteration|generation) (\d+)", told, re.M)
        return [int(number) for number in lines]


def record_program(folder: Path, name: str, *arguments: str) -> RecordedProgram:
    """Run a program to its end under `ramledger run`, with default settings and all its tables."""
    out = folder / f"{name}.ledger.jsonl"
    program = [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments]
    command = [COMMAND, "run", "--verbose", "--out", str(out), "--", *program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = tuple(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return RecordedProgram(out, lines, done.stderr)
