"""Everything the page of a run shows, as one bounded JSON document (`ramledger.page/1`)."""

import os
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from ramledger.diagnose.advice import advise, remedy_command
from ramledger.diagnose.comparison import compare
from ramledger.diagnose.copied_lists import copied_in_run
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.live_judge import time_left_of
from ramledger.diagnose.verdict import diagnose
from ramledger.events import SnapshotEvent
from ramledger.report.account_words import meaning
from ramledger.report.html.page_growth import growth_document
from ramledger.report.html.page_leaks import leaks_document
from ramledger.report.html.page_series import series_document, thinned
from ramledger.report.html.page_snapshots import MAX_TEXT, Names, snapshots_document
from ramledger.report.iteration_words import iteration_sentence
from ramledger.report.remedy_report import (
    Baseline,
    compared,
    not_yet_applied,
    remedies_of,
)
from ramledger.report.terminal.growth_words import pressure_text
from ramledger.report.terminal.live_view import broken_expectation
from ramledger.run.ending import How, KernelKill, ending_of, kernel_kill
from ramledger.run.history import Instant
from ramledger.run.model import Run
from ramledger.run.processes import Process
from ramledger.run.timeline import Timeline, build_timeline
from ramledger.units import format_duration

PAGE_SCHEMA = "ramledger.page/1"
MAX_NOTES = 60
MAX_PROCESSES = 400


def page_documents(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The documents of runs, judged; the second of two says how it compares with the first."""
    judged = [(run, diagnose(run)) for run in runs]
    documents = [
        page_data(run, diagnosis, runs[number - 1] if number else None)
        for number, (run, diagnosis) in enumerate(judged)
    ]
    if len(judged) == 2:
        (_, before), (_, after) = judged
        documents[1]["comparison"] = compare(before, after).to_dict()
    return documents


def page_data(run: Run, diagnosis: Diagnosis | None, against: Run | None = None) -> dict[str, Any]:
    """The document of one run; `against`, the one without its remedies."""
    names = Names()
    timeline = build_timeline(run)
    instants = thinned(run.instants)
    main_pid = run.main_pid
    advice = _advice(run)
    return {
        "schema": PAGE_SCHEMA,
        "recording": os.path.basename(run.path),
        **_about(run),
        "iteration": iteration_sentence(run.counted_by, is_known=timeline.by_generation),
        "verdict": None if diagnosis is None else diagnosis.to_dict(),
        "leaks": leaks_document(diagnosis, timeline),
        "peak": {
            "bytes": run.peak_bytes,
            "t": round(run.peak_at, 3),
            "generation": run.peak_where[0],
            "phase": run.peak_where[1],
        },
        "outlook": _outlook(run, diagnosis, timeline, instants),
        "main_pid": main_pid,
        "series": series_document(instants, main_pid),
        "processes": [_process(row) for row in _rows(run)],
        "snapshots": snapshots_document(_by_pid(run), main_pid, names),
        "growth": growth_document(timeline, names, diagnosis),
        "expectations": _expectations(run),
        "advice": advice,
        "commands": _commands(run, diagnosis, advice),
        "remedies": _remedies(run, against),
        "notes": _notes(run),
        "names": names.texts,
        "meanings": _meanings(diagnosis, names),
    }


def detail_data(run: Run, begin: float, end: float) -> dict[str, Any]:
    """The series of one stretch in full detail, for a page that zooms into a served run."""
    instants = [instant for instant in run.instants if begin <= instant.t <= end]
    return series_document(thinned(instants), run.main_pid)


def _by_pid(run: Run) -> dict[int, list[SnapshotEvent]]:
    found: dict[int, list[SnapshotEvent]] = defaultdict(list)
    for snapshot in run.of_type(SnapshotEvent):
        found[snapshot.pid].append(snapshot)
    return found


def _meanings(diagnosis: Diagnosis | None, names: Names) -> dict[str, str]:
    """By account, what it is; other names have no meaning here."""
    accounts = {line.account for line in diagnosis.growth} if diagnosis is not None else set()
    found = {name: meaning(name) for name in [*names.texts, *sorted(accounts)]}
    return {name: text for name, text in found.items() if text}


def _about(run: Run) -> dict[str, Any]:
    header, limit, end = run.header, run.limit, run.end
    host = {} if header.host is None else asdict(header.host)
    ended = ending_of(run)
    return {
        "command": run.command[: 4 * MAX_TEXT],
        "directory": header.directory,
        "ramledger": header.ramledger,
        "host": {name: value for name, value in host.items() if value not in (None, "")},
        "started_at": header.started_at,
        "seconds": round(run.now_seconds, 3),
        "limit": None if limit is None else {"bytes": limit.bytes, "source": limit.source},
        "ended": ended.text,
        "died": ended.how not in (How.FINISHED, How.NOT_RECORDED),
        "is_over": end is not None,
        "exit": None if end is None else {"exit_code": end.exit_code, "signal": end.signal},
        "kill": _kill(kernel_kill(run)),
    }


def _kill(kill: KernelKill | None) -> dict[str, Any] | None:
    if kill is None:
        return None
    grown = kill.grew_last
    return {
        "pid": kill.pid,
        "command": kill.command,
        "bytes": kill.resident_bytes,
        "largest": [list(item) for item in kill.largest],
        "grew_last": None if grown is None else list(grown[:2]),
        "grew_when": "" if grown is None else f"in {format_duration(grown[2])}",
    }


def _outlook(
    run: Run, diagnosis: Diagnosis | None, timeline: Timeline, instants: Sequence[Instant]
) -> dict[str, Any] | None:
    """When the limit is reached: from the level while it runs, afterwards as the verdict forecasts.

    A run that is over has given its memory back, so its last levels say nothing.
    """
    if run.limit is None or not run.limit.bytes or not instants:
        return None
    if run.end is not None:
        return _had_it_gone_on(diagnosis, timeline, instants)
    outlook, _ = time_left_of(run)
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
    diagnosis: Diagnosis | None, timeline: Timeline, instants: Sequence[Instant]
) -> dict[str, Any] | None:
    """The forecast of the verdict, its iterations as seconds."""
    points, found = timeline.points, diagnosis.outlook if diagnosis is not None else None
    if found is None or found.limit_generation is None or not timeline.by_generation:
        return None
    end, span = points[-1], points[-1].generation - points[0].generation
    step_seconds = (end.t - points[0].t) / max(1, span)
    last = max((i for i in instants if i.t <= end.t), key=lambda i: i.t, default=instants[0])
    low, high = found.limit_interval or (None, None)
    more = found.limit_generation - end.generation

    def seconds(generation: int | None) -> float | None:
        return None if generation is None else (generation - end.generation) * step_seconds

    return {
        "seconds_left": more * step_seconds,
        "low_seconds": seconds(low),
        "high_seconds": seconds(high),
        "reason": f"at iteration {found.limit_generation:,}, after {more:,} more",
        "from_t": last.t,
        "from_bytes": last.level_bytes,
        "draw": True,
    }


def _rows(run: Run) -> list[Process]:
    rows = run.processes.rows.values()
    return sorted(rows, key=lambda row: -row.peak_bytes)[:MAX_PROCESSES]


def _process(row: Process) -> dict[str, Any]:
    return {
        "pid": row.pid,
        "parent": row.parent_pid,
        "command": row.command[:MAX_TEXT],
        "name": row.name[:MAX_TEXT],
        "node": row.node[:MAX_TEXT],
        "agent": row.has_agent,
        "threads": row.threads,
        "last": row.rss_bytes,
        "peak": row.peak_bytes,
        "ended_at": row.ended_at,
        "exit_code": row.exit_code,
        "signal": row.signal,
    }


def _expectations(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "t": event.t,
            "type": event.type,
            "expected": event.expected,
            "found": event.found,
            "text": broken_expectation(event),
        }
        for event in run.expectations
    ]


def _advice(run: Run) -> list[dict[str, Any]]:
    """What would save memory at the largest snapshot."""
    snapshots = run.main_snapshots
    if snapshots is None:
        return []
    snapshot = snapshots.peak or snapshots.now
    statement = replace(snapshot.statement, limit=run.limit)
    found = not_yet_applied(advise(statement, copied_in_run(run)), run)
    return [item.to_dict() for item in found]


def _commands(
    run: Run, diagnosis: Diagnosis | None, advice: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """By remedy that is advised: what to start."""
    names = [str(item["apply"]) for item in advice if item["apply"]]
    names += [one.apply for one in diagnosis.findings if one.apply] if diagnosis else []
    command = shlex.join(run.header.command)
    return {name: remedy_command(name, command) for name in names}


def _remedies(run: Run, against: Run | None) -> dict[str, Any] | None:
    """What each remedy did, and sentences on what was measured; None without remedies."""
    if not run.remedies:
        return None
    baseline = Baseline.of(run, against)
    return {
        "each": [remedy.to_dict() for remedy in remedies_of(run, baseline)],
        "compared": list(compared(run, baseline)),
    }


def _notes(run: Run) -> list[str]:
    notes = [note[:MAX_TEXT] for note in run.notes]
    notes += map(pressure_text, run.pressures)
    return list(dict.fromkeys(notes))[:MAX_NOTES]
