"""The budget of a whole training, read off the growth table of its rehearsal.

Rows are measured: what stays, what fills to a capacity, what rises; their formulas say so.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ramledger.diagnose.advice import advise
from ramledger.diagnose.finding import Diagnosis, Outlook, Verdict
from ramledger.diagnose.growth_table import FREE, GrowthTable
from ramledger.diagnose.outlook import future
from ramledger.diagnose.verdict import diagnose, forecast_table
from ramledger.errors import ConfigError
from ramledger.event_parts import ContainerContent
from ramledger.ledger import Entry
from ramledger.plan.budget import (
    NOTHING,
    Budget,
    Check,
    Recommendation,
    Room,
    Row,
    Severity,
    Span,
    Training,
    When,
    Where,
)
from ramledger.plan.rehearse import Rehearsal
from ramledger.units import MIB, format_bytes, format_duration

_IMPORTED = ("imports/", "libraries/", "python/startup", "ramledger", "files/", "kernel")
_SAVES = ("save", "checkpoint")
_WIDE = 0.3  # of the peak: an interval that is worth a word
_WORTH_BYTES = MIB
_HINT = (
    "the program has to come to its training loop within the rehearsal: give it more time "
    "(--rehearse 5min), or mark its iterations (docs/run.md)"
)


@dataclass(frozen=True, slots=True)
class _Forecast:
    """A rehearsal, judged."""

    rehearsal: Rehearsal
    table: GrowthTable
    diagnosis: Diagnosis
    outlook: Outlook
    at: float  # the last iteration that is planned, or where all that fills is full


def budget_of_rehearsal(rehearsal: Rehearsal, title: str) -> Budget:
    """What the whole training will need."""
    forecast = _forecast(rehearsal, title)
    outlook = forecast.outlook
    needed = Span(outlook.interval_bytes[0], outlook.peak_bytes, outlook.interval_bytes[1])
    limit = rehearsal.run.limit
    rows = tuple(_rows(forecast))
    workers = sum((row.span for row in rows if row.where is Where.WORKERS), NOTHING)
    main = Span(*(max(0, a - b) for a, b in zip(_sizes(needed), _sizes(workers), strict=True)))
    return Budget(
        title=f"{title}: {_seen(rehearsal)}",
        config={},
        rows=rows,
        main=main,
        peak_phase=_peak_phase(forecast),
        ram=Room(needed, limit.bytes if limit else None, limit.source if limit else "unknown"),
        vram=Room(NOTHING, None, "unknown"),
        training=Training(iterations=_planned(rehearsal)),
        checks=tuple(_checks(forecast)),
        recommendations=tuple(_recommendations(forecast)),
        assumed=tuple(_assumed(forecast)),
        phases={"filled": needed},
        command=shlex.join(rehearsal.run.header.command),
    )


def _sizes(span: Span) -> tuple[int, int, int]:
    return span.low, span.expected, span.high


def _seen(rehearsal: Rehearsal) -> str:
    if not _saw_loop(rehearsal):
        return f"{format_duration(rehearsal.seconds)} rehearsed"
    if not rehearsal.iterations:
        return f"less than one iteration rehearsed in {format_duration(rehearsal.seconds)}"
    some = "1 iteration" if rehearsal.iterations == 1 else f"{rehearsal.iterations:,} iterations"
    return f"{some} rehearsed in {format_duration(rehearsal.seconds)}"


def _planned(rehearsal: Rehearsal) -> int | None:
    last = rehearsal.run.planned.last_iteration
    return None if last is None else last + 1


def _forecast(rehearsal: Rehearsal, title: str) -> _Forecast:
    run = rehearsal.run
    table = forecast_table(run)
    diagnosis = diagnose(run)
    has_failed = not rehearsal.was_stopped and not _saw_loop(rehearsal)
    if table is None or diagnosis.outlook is None or has_failed:
        raise ConfigError(f"{title}: {_why_not(rehearsal)}", hint=_hint(rehearsal))
    planned = run.planned.last_iteration
    end = float(table.timeline.points[-1].generation)
    at = end if planned is None else max(end, float(planned))
    return _Forecast(rehearsal, table, diagnosis, diagnosis.outlook, at)


def _saw_loop(rehearsal: Rehearsal) -> bool:
    return bool(rehearsal.iterations or rehearsal.run.counted_by)


def _why_not(rehearsal: Rehearsal) -> str:
    took = format_duration(rehearsal.seconds)
    if rehearsal.was_stopped:
        return f"no training loop was seen in {took}"
    outcome = rehearsal.outcome
    how = f"signal {outcome.signal}" if outcome.signal else f"exit code {outcome.exit_code}"
    return f"it ended by itself after {took} with {how}, before a training loop was seen"


def _hint(rehearsal: Rehearsal) -> str:
    if rehearsal.was_stopped or not rehearsal.output:
        return _HINT
    eof = "; a rehearsal leaves its standard input empty" if "EOFError" in rehearsal.output else ""
    return f"its last lines{eof}:\n{rehearsal.output}"


# ---- rows ------------------------------------------------------------------------------------


def _rows(forecast: _Forecast) -> Iterator[Row]:
    table = forecast.table
    last = table.snapshots[-1] if table.snapshots else None
    rows = [_row(forecast, entry) for entry in last.entries.values()] if last else []
    workers = list(_worker_rows(forecast))
    most = forecast.outlook.peak_bytes - sum(row.span.expected for row in workers)
    rows = list(_into_free_memory(rows, most))
    yield from sorted(rows, key=lambda row: -row.span.expected)
    yield from workers
    shm = table.shm
    if shm.points and shm.predict(forecast.at)[1] >= _WORTH_BYTES:
        yield Row("shared memory", _span(shm.predict(forecast.at)), "/dev/shm", When.START)
    left = forecast.outlook.peak_bytes - sum(row.span.expected for row in (*rows, *workers))
    if left >= _WORTH_BYTES:
        text = "growth without an owner, and what phases need for a moment"
        yield Row("not attributed", Span(0, left, left), text, When.FILLED)


def _into_free_memory(rows: Sequence[Row], most: int) -> Iterator[Row]:
    """What grows takes free memory first: the level rises by less than all rows together."""
    excess = max(0, sum(row.span.expected for row in rows) - most)
    for row in rows:
        taken = min(excess, row.span.expected) if row.account in FREE else 0
        excess -= taken
        if taken:
            left = row.span.expected - taken
            yield replace(row, span=Span.exact(left), formula=f"{row.formula}; growth reuses it")
        else:
            yield row


def _row(forecast: _Forecast, entry: Entry) -> Row:
    table, name, at = forecast.table, entry.account, forecast.at
    fit = table.fits.get(name)
    now = entry.resident_bytes
    when = When.IMPORT if name.startswith(_IMPORTED) else When.START
    if name in table.capacities:
        capacity = table.capacities[name]
        low, middle, high = (min(size, capacity) for size in _later(forecast, name))
        return Row(name, _span((low, middle, high)), _filling(forecast, name), When.FILLED,
                   reserved_bytes=entry.reserved_bytes)  # fmt: skip
    if fit is not None and table.is_judged(name) and table.matters(fit):
        leaks = forecast.diagnosis.verdict is Verdict.LEAK
        text = f"{format_bytes(now)} now, {format_bytes(round(fit.rate))} more an iteration"
        if not leaks:
            text += ", which may end"
        return Row(name, _span(future(fit, at, leaks)), text, When.FILLED)
    return Row(name, Span.exact(now), "as measured", when, reserved_bytes=entry.reserved_bytes)


def _later(forecast: _Forecast, name: str) -> tuple[float, float, float]:
    """At the planned end; without one a buffer ends full."""
    table = forecast.table
    if forecast.rehearsal.run.planned.last_iteration is None:
        capacity = table.capacities[name]
        return capacity, capacity, capacity
    return table.fits[name].predict(forecast.at)


def _filling(forecast: _Forecast, name: str) -> str:
    """`1,800 of 50,000 dict × 559 kB`, or how much of what was reserved is touched."""
    table = forecast.table
    capacity = table.capacities[name]
    found = _container(table, name)
    if found is not None and found.capacity and found.length:
        each = format_bytes(round(capacity / found.capacity))
        return f"{found.length:,} of {found.capacity:,} elements, {each} each"
    now = table.accounts[name][-1][1]
    return f"{format_bytes(round(now))} of {format_bytes(round(capacity))} filled"


def _container(table: GrowthTable, name: str) -> ContainerContent | None:
    last: Sequence[ContainerContent] = table.snapshots[-1].containers if table.snapshots else ()
    return next((one for one in last if one.account == name and one.capacity), None)


def _worker_rows(forecast: _Forecast) -> Iterator[Row]:
    table = forecast.table
    low, middle, high = table.children.predict(forecast.at) if table.children.points else (0, 0, 0)
    for worker in table.workers:
        for name in worker.fillings:
            capacity = worker.capacities[name]
            sizes = [min(size, capacity) for size in worker.fits[name].predict(forecast.at)]
            low, middle, high = low + sizes[0], middle + sizes[1], high + sizes[2]
    if middle < _WORTH_BYTES:
        return
    count = table.timeline.worker_counts[-1][1] if table.timeline.worker_counts else 0
    yield Row(
        "worker processes",
        _span((low, middle, high)),
        f"{count} processes, what they do not share with the one that trains",
        When.START,
        Where.WORKERS,
    )


def _span(sizes: Sequence[float]) -> Span:
    low, middle, high = (max(0, round(min(size, 1e15))) for size in sizes)
    return Span(min(low, middle), middle, max(middle, high))


# ---- words -----------------------------------------------------------------------------------


def _peak_phase(forecast: _Forecast) -> str:
    peak = forecast.rehearsal.run.peak_where[1]
    return peak or "training"


def _checks(forecast: _Forecast) -> Iterator[Check]:
    rehearsal, outlook = forecast.rehearsal, forecast.outlook
    if rehearsal.reached_limit and rehearsal.run.limit is not None:
        limit = format_bytes(rehearsal.run.limit.bytes)
        yield Check(
            "limit-reached", Severity.ERROR, "the rehearsal",
            f"it came near the limit of {limit} and was stopped",
            "plan for more RAM, or make the largest rows smaller",
        )  # fmt: skip
    elif outlook.limit_generation is not None:
        yield Check(
            "limit", Severity.ERROR, f"iteration {outlook.limit_generation:,}",
            "at the present rate of growth, the limit is reached in this iteration",
            "see which rows fill or grow",
        )  # fmt: skip
    for leak in forecast.diagnosis.leaks:
        where = next(iter((*leak.code.stored_at, *leak.code.made_at)), leak.culprit.path)
        yield Check("leak", Severity.WARNING, where or leak.phase, leak.summary, leak.advice)
    if not _saw_loop(rehearsal):
        yield Check(
            "no-loop", Severity.WARNING, "the rehearsal",
            f"no training loop was seen in {format_duration(rehearsal.seconds)}: the plan covers "
            "only what ran; memory that the training adds later is not included",
            _HINT,
        )  # fmt: skip
    if outlook.starting_bytes >= _WORTH_BYTES:
        yield Check(
            "starting", Severity.WARNING, "the rehearsal",
            "worker processes were still starting: they are planned as large as the process that "
            f"starts them, {format_bytes(outlook.starting_bytes)} more than they had",
            "rehearse until they have started",
        )  # fmt: skip
    if not _saw_a_save(forecast):
        yield Check(
            "no-checkpoint", Severity.NOTE, "the rehearsal",
            "no checkpoint was seen; a save may need more",
            "rehearse past the first save, or leave room for a copy of what it writes",
        )  # fmt: skip


def _saw_a_save(forecast: _Forecast) -> bool:
    run = forecast.rehearsal.run
    names = [phase.name for phase in forecast.table.timeline.phases] + list(run.function_growth)
    return any(word in name.lower() for name in names for word in _SAVES)


def _recommendations(forecast: _Forecast) -> Iterator[Recommendation]:
    snapshots = forecast.rehearsal.run.main_snapshots
    if snapshots is None:
        return
    for number, advice in enumerate(advise(snapshots.now.statement), 1):
        yield Recommendation(
            number, advice.title, advice.why, advice.saves_bytes, "; ".join(advice.do),
            apply=advice.apply,
        )  # fmt: skip


def _assumed(forecast: _Forecast) -> Iterator[str]:
    rehearsal, outlook = forecast.rehearsal, forecast.outlook
    if not rehearsal.was_stopped and not rehearsal.reached_limit:
        yield "the program ended by itself: the plan covers all of it"
    elif not rehearsal.iterations and _saw_loop(rehearsal):
        yield (
            "no iteration was finished: the plan has all buffers full; memory that later "
            "iterations add is not included"
        )
    elif _planned(rehearsal) is None:
        yield (
            "the number of iterations is not known (give --iterations N): the plan is for the "
            "level at which all buffers are full and other growth has stopped"
        )
    low, high = outlook.interval_bytes
    if high - low > _WIDE * outlook.peak_bytes:
        yield (
            f"{rehearsal.iterations} iterations are too few to know whether growth stops soon or "
            "goes on; rehearse longer"
        )
