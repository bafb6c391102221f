"""A finished run as one JSON document (`ramledger.run/1`)."""

from typing import Any

from ramledger.ledger import StatementDiff
from ramledger.report.plan_grade import graded
from ramledger.report.terminal.killed_run import ending_of_state, kernel_kill
from ramledger.run.state import Looks, RunState

RUN_SCHEMA = "ramledger.run/1"


def run_document(state: RunState, recording: str) -> dict[str, Any]:
    """What `ramledger run --json` prints."""
    end = state.end or {}
    kill = kernel_kill(state)
    looks = state.main_looks
    generations = state.trend.generations(state.main_pid)
    growth = state.growth_per_generation()
    return {
        "schema": RUN_SCHEMA,
        "command": list(state.header.get("command", ())),
        "recording": recording,
        "seconds": round(state.now_seconds, 3),
        "exit_code": end.get("exit_code"),
        "signal": end.get("signal"),
        "ended": ending_of_state(state).to_dict(),
        "killed_by_kernel": None
        if kill is None
        else {
            "pid": kill.pid,
            "command": kill.command,
            "resident_bytes": kill.resident_bytes,
            "grew_last": kill.grew_last[0] if kill.grew_last else None,
        },
        "peak_bytes": state.peak_bytes,
        "limit": state.header.get("limit"),
        "generations": generations[-1].generation if generations else None,
        "growth_bytes_per_generation": None if growth is None else round(growth),
        "phases": [
            {
                "name": total.name,
                "count": total.count,
                "seconds": round(total.seconds, 3),
                "peak_bytes": total.peak_bytes,
                "growth_bytes": total.growth_bytes,
            }
            for total in state.trend.phases(state.main_pid)
        ],
        "statement": _peak(looks),
        "growth": _growth(looks),
        "plan": [row.to_dict() for row in graded(state)] or None,
        "expectations": [dict(event) for event in state.expectations],
        "notes": list(state.notes),
    }


def _peak(looks: Looks | None) -> dict[str, Any] | None:
    return None if looks is None else (looks.peak or looks.now).statement.to_dict()


def _growth(looks: Looks | None) -> dict[str, Any] | None:
    if looks is None or looks.baseline is looks.now:
        return None
    return StatementDiff(looks.baseline.statement, looks.now.statement).to_dict()
