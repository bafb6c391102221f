"""A finished run as one JSON document (`ramledger.run/1`)."""

from dataclasses import replace
from typing import Any

from ramledger.events import ExpectationEvent, SnapshotEvent
from ramledger.ledger import Statement, StatementDiff
from ramledger.report.plan_grade import graded
from ramledger.report.remedy_report import remedies_document
from ramledger.run.ending import ending_of, kernel_kill
from ramledger.run.model import Run
from ramledger.run.snapshots import ProcessSnapshots

RUN_SCHEMA = "ramledger.run/1"


def run_document(run: Run, recording: str, against: Run | None = None) -> dict[str, Any]:
    """What `ramledger run --json` prints."""
    kill = kernel_kill(run)
    ended = ending_of(run)
    snapshots = run.main_snapshots
    iterations = run.iterations.of(run.main_pid)
    growth = run.growth_per_iteration()
    limit = run.header.limit
    return {
        "schema": RUN_SCHEMA,
        "command": list(run.header.command),
        "recording": recording,
        "seconds": round(run.now_seconds, 3),
        "exit_code": ended.exit_code,
        "signal": ended.signal,
        "ended": ended.to_dict(),
        "killed_by_kernel": None
        if kill is None
        else {
            "pid": kill.pid,
            "command": kill.command,
            "resident_bytes": kill.resident_bytes,
            "grew_last": kill.grew_last[0] if kill.grew_last else None,
        },
        "peak_bytes": run.peak_bytes,
        "limit": None if limit is None else {"bytes": limit.bytes, "source": limit.source},
        "generations": iterations[-1].generation if iterations else None,
        "growth_bytes_per_generation": None if growth is None else round(growth),
        "phases": [
            {
                "name": total.name,
                "count": total.passes,
                "seconds": round(total.seconds, 3),
                "peak_bytes": total.peak_bytes,
                "growth_bytes": total.growth_bytes,
            }
            for total in run.iterations.phases(run.main_pid)
        ],
        "statement": _peak(snapshots),
        "growth": _growth(snapshots),
        "plan": [row.to_dict() for row in graded(run)] or None,
        "remedies": remedies_document(run, against),
        "expectations": [_expectation(event) for event in run.expectations],
        "notes": list(run.notes),
    }


def _expectation(event: ExpectationEvent) -> dict[str, Any]:
    found = {
        "event": event.kind,
        "t": event.t,
        "pid": event.pid,
        "type": event.type,
        "expected": event.expected,
        "found": event.found,
        "generation": event.generation,
        "phase": event.phase,
        "paths": list(event.paths) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _peak(snapshots: ProcessSnapshots | None) -> dict[str, Any] | None:
    return None if snapshots is None else _without_types(snapshots.peak or snapshots.now).to_dict()


def _growth(snapshots: ProcessSnapshots | None) -> dict[str, Any] | None:
    if snapshots is None or snapshots.baseline is snapshots.now:
        return None
    before, after = map(_without_types, (snapshots.baseline, snapshots.now))
    changed = sorted(
        [change for change in snapshots.count_changes if change[1] != change[2]],
        key=lambda change: (-abs(change[2] - change[1]), change[0]),
    )
    return StatementDiff(before, after).to_dict() | {"count_changes": list(map(list, changed))}


def _without_types(snapshot: SnapshotEvent) -> Statement:
    """Hundreds of rows, which the recording has."""
    return replace(snapshot.statement, types=())
