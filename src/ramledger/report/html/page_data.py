"""Everything the page of a run shows, as one bounded JSON document (`ramledger.page/1`)."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ramledger.diagnose.advice import advise
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.verdict import diagnose
from ramledger.recording import Event, Recording
from ramledger.report.html.page_growth import growth_document
from ramledger.report.html.page_series import Instant, SeriesBuilder, series_document
from ramledger.report.html.page_snapshots import MAX_TEXT, Names, looks_document
from ramledger.report.terminal.killed_run import ending_of_state, kernel_kill
from ramledger.report.terminal.live_view import broken_expectation
from ramledger.run.ending import How
from ramledger.run.iterations import whole
from ramledger.run.state import ProcessRow, RunState
from ramledger.run.timeline import Timeline, build_timeline
from ramledger.units import format_bytes

PAGE_SCHEMA = "ramledger.page/1"
MAX_NOTES = 60
_MAX_SNAPSHOTS = 4000  # of one process that are looked at for the ones that matter


def page_data(recording: Recording, diagnosis: Diagnosis | None) -> dict[str, Any]:
    """The document of one recording; a recording of strangers may be damaged anywhere."""
    state, builder, snapshots = _walk(recording)
    names = Names()
    timeline = build_timeline(recording)
    instants = builder.instants()
    main_pid = state.main_pid
    return {
        "schema": PAGE_SCHEMA,
        "recording": os.path.basename(recording.path),
        **_about(state, recording),
        "verdict": None if diagnosis is None else diagnosis.to_dict(),
        "peak": {
            "bytes": state.peak_bytes,
            "t": round(state.peak_at, 3),
            "generation": state.peak_where[0],
            "phase": state.peak_where[1],
        },
        "outlook": _outlook(state, diagnosis, timeline, instants),
        "main_pid": main_pid,
        "series": series_document(instants, main_pid),
        "processes": [_process(row) for row in _rows(state)],
        "looks": looks_document(snapshots, main_pid, names, timeline.snapshots),
        "growth": growth_document(timeline, names),
        "expectations": _expectations(state),
        "advice": _advice(state),
        "notes": _notes(state),
        "names": names.texts,
    }


def verdict_on(recording: Recording) -> Diagnosis:
    """The verdict that the page begins with."""
    return diagnose(recording)


def detail_data(recording: Recording, begin: float, end: float) -> dict[str, Any]:
    """The series of one stretch in full detail, for a page that zooms into a served run."""
    state, builder, _ = _walk(recording, begin, end)
    return series_document(builder.instants(), state.main_pid)


def growth_of(recording: Recording) -> dict[str, Any]:
    """Where memory grew, by generation and phase."""
    return growth_document(build_timeline(recording), Names())


def _walk(
    recording: Recording, begin: float = 0.0, end: float = float("inf")
) -> tuple[RunState, SeriesBuilder, dict[int, list[Event]]]:
    state = RunState(recording.header)
    builder = SeriesBuilder(begin, end)
    snapshots: dict[int, list[Event]] = defaultdict(list)
    for event in recording.events:
        state.take(event)
        kind = event["event"]
        if kind == "sample":
            builder.saw(event, state)
        elif kind == "snapshot":
            found = snapshots[event["pid"]]
            found.append(event)
            if len(found) > _MAX_SNAPSHOTS:
                del found[1:-1:2]
    state.notes.extend(recording.notes)
    return state, builder, snapshots


def _about(state: RunState, recording: Recording) -> dict[str, Any]:
    header = recording.header
    limit, kill = state.limit, kernel_kill(state)
    host = header.get("host")
    end, ended = state.end, ending_of_state(state)
    return {
        "command": state.command[: 4 * MAX_TEXT],
        "directory": str(header.get("directory") or ""),
        "ramledger": str(header.get("ramledger") or ""),
        "host": dict(host) if isinstance(host, Mapping) else {},
        "started_at": _number(header.get("started_at")),
        "seconds": round(state.now_seconds, 3),
        "limit": None if limit is None else {"bytes": limit.bytes, "source": limit.source},
        "ended": ended.text,
        "died": ended.how not in (How.FINISHED, How.NOT_RECORDED),
        "is_over": end is not None,
        "exit": None if end is None else {k: end.get(k) for k in ("exit_code", "signal")},
        "kill": None
        if kill is None
        else {
            "pid": kill.pid,
            "command": kill.command,
            "bytes": kill.resident_bytes,
            "largest": [list(item) for item in kill.largest],
            "grew_last": list(kill.grew_last) if kill.grew_last else None,
            "grew_when": kill.grew_when,
        },
    }


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e12 else None


def _outlook(
    state: RunState, diagnosis: Diagnosis | None, timeline: Timeline, instants: Sequence[Instant]
) -> dict[str, Any] | None:
    """When the limit is reached: while it runs by the level, afterwards by the leak that was found.

    A run that is over has given its memory back, so its last levels say nothing.
    """
    if state.limit is None or not state.limit.bytes or not instants:
        return None
    if state.end is not None:
        return _had_it_gone_on(state.limit.bytes, diagnosis, timeline, instants)
    outlook = state.outlook()
    if outlook is None:
        return None
    return {
        "seconds_left": outlook.seconds_left,
        "low_seconds": outlook.low_seconds,
        "high_seconds": outlook.high_seconds,
        "reason": outlook.reason,
        "from_t": instants[-1].t,
        "from_bytes": instants[-1].level_bytes,
        "draw": bool(outlook.seconds_left),
    }


def _had_it_gone_on(
    limit_bytes: int,
    diagnosis: Diagnosis | None,
    timeline: Timeline,
    instants: Sequence[Instant],
) -> dict[str, Any] | None:
    points = timeline.points
    leaks = diagnosis.leaks if diagnosis is not None else ()
    if not leaks or not timeline.by_generation or len(points) < 2:
        return None
    step_seconds = (points[-1].t - points[0].t) / (len(points) - 1)
    last = max((i for i in instants if i.t <= points[-1].t), key=lambda i: i.t, default=instants[0])
    room = limit_bytes - last.level_bytes
    rate = sum(leak.bytes_per_generation for leak in leaks)
    low, high = (sum(leak.interval_bytes[at] for leak in leaks) for at in (1, 0))
    if room <= 0 or rate <= 0:
        return None
    return {
        "seconds_left": room / rate * step_seconds,
        "low_seconds": room / low * step_seconds if low > 0 else None,
        "high_seconds": room / high * step_seconds if high > 0 else None,
        "reason": f"{room // rate:,} more generations at {format_bytes(rate)} each",
        "from_t": last.t,
        "from_bytes": last.level_bytes,
        "draw": True,
    }


def _rows(state: RunState) -> list[ProcessRow]:
    return sorted(state.processes.values(), key=lambda row: -row.peak_bytes)


def _process(row: ProcessRow) -> dict[str, Any]:
    return {
        "pid": row.pid,
        "parent": row.parent_pid,
        "command": row.command[:MAX_TEXT],
        "name": row.name[:MAX_TEXT],
        "node": row.node[:MAX_TEXT],
        "agent": row.has_agent,
        "threads": row.threads,
        "last": row.resident_bytes,
        "peak": row.peak_bytes,
        "ended_at": row.ended_at,
        "exit_code": row.exit_code,
        "signal": row.signal,
    }


def _expectations(state: RunState) -> list[dict[str, Any]]:
    return [
        {
            "t": float(event.get("t") or 0.0),
            "type": str(event["type"]),
            "expected": whole(event["expected"]),
            "found": whole(event["found"]),
            "text": broken_expectation(event),
        }
        for event in state.expectations
    ]


def _advice(state: RunState) -> list[dict[str, Any]]:
    """What would save memory at the largest look."""
    looks = state.main_looks
    if looks is None:
        return []
    statement = (looks.peak or looks.now).statement
    return [item.to_dict() for item in advise(replace(statement, limit=state.limit))]


def _notes(state: RunState) -> list[str]:
    notes = [str(note)[:MAX_TEXT] for note in state.notes]
    notes += [
        f"the limit was near: action {event.get('action', 'none')}" for event in state.pressures
    ]
    if state.malformed_events:
        notes.append(f"{state.malformed_events} malformed events were left out")
    return list(dict.fromkeys(notes))[:MAX_NOTES]
