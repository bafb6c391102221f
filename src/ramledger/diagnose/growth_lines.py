"""The growth table as rows: of the process that trains, of its workers, of /dev/shm."""

from dataclasses import replace

from ramledger.diagnose.code_lines import stored_lines
from ramledger.diagnose.finding import GrowthLine, OutsideGrowth
from ramledger.diagnose.growth_places import adding_phase
from ramledger.diagnose.growth_table import GrowthTable, onset_generation
from ramledger.run.shapes import Fit, GrowthRow
from ramledger.run.shapes.filled_in import level_at
from ramledger.units import MIB

OTHERS = "other accounts"  # all but the largest together
_MOST_LINES, _MOST_OF_WORKER = 20, 5
_MOST_WORKERS = 8
_VARIABLES = "variables/"


def growth_lines(
    table: GrowthTable, planned: int | None, most: int = _MOST_LINES
) -> tuple[GrowthLine, ...]:
    """The largest changes, all others together, and what no account explains."""
    statement = table.statement
    rows = sorted(statement.rows, key=lambda row: (-abs(row.growth), row.name))
    kept, others = rows[:most], rows[most:]
    lines = [_line(table, row, planned) for row in kept]
    if others:
        growth, whole = sum(row.growth for row in others), statement.whole.growth
        span = statement.stop - statement.start
        per, points = table.timeline.rate_unit
        rate = points * growth / span if span else 0.0
        share = growth / whole if whole else 0.0
        lines.append(GrowthLine(OTHERS, growth, rate, (rate, rate), share, "", per=per))
    return (*lines, _line(table, statement.unexplained, planned))


def growth_total(table: GrowthTable, planned: int | None) -> GrowthLine:
    """The growth of RSS, which the lines sum to."""
    return replace(_line(table, table.statement.whole, planned), account="RSS")


def growth_span(table: GrowthTable) -> tuple[float, float]:
    """The stretch in which all accounts are known: generations, or seconds."""
    begin, end = table.statement.start, table.statement.stop
    if table.timeline.by_generation:
        return round(begin, 1), round(end, 1)
    times = [(float(point.generation), point.t) for point in table.timeline.points]
    return round(level_at(times, begin), 1), round(level_at(times, end), 1)


def outside_growth(table: GrowthTable, planned: int | None) -> tuple[OutsideGrowth, ...]:
    """Workers that grew most, each by its own accounts where it was looked into; then /dev/shm."""
    found = []
    for worker in table.workers[:_MOST_WORKERS]:
        if _grown(worker.whole_level) < MIB:
            continue
        lines = growth_lines(worker, planned, _MOST_OF_WORKER) if len(worker.snapshots) > 1 else ()
        level = _level(table, "all of it", worker.whole_level, planned)
        found.append(OutsideGrowth(worker.timeline.main_pid, lines or (level,)))
    if table.shm.points and _grown(table.shm) >= MIB:
        found.append(OutsideGrowth(None, (_level(table, "/dev/shm", table.shm, planned),)))
    return tuple(found)


def _level(table: GrowthTable, name: str, fit: Fit, planned: int | None) -> GrowthLine:
    """Of a series that stands for itself."""
    return _line(
        table, GrowthRow(name, _grown(fit), fit.rate, fit.rate_interval, 1.0, fit), planned
    )


def _grown(fit: Fit) -> int:
    return round(fit.level - fit.predict(fit.start)[1])


def _line(table: GrowthTable, row: GrowthRow, planned: int | None) -> GrowthLine:
    timeline, fit = table.timeline, row.fit
    per, points = timeline.rate_unit
    low, high = row.rate_interval
    capacity = table.capacities.get(row.name, fit.capacity)
    forecast = None if planned is None else fit.predict(float(planned))[1]
    if forecast is not None and capacity is not None:
        forecast = min(forecast, capacity)
    length = table.length_of(row.name)
    path = row.name.removeprefix(_VARIABLES)
    is_owner = path != row.name
    return GrowthLine(
        row.name,
        row.growth,
        points * row.rate,
        (points * low, points * high),
        row.share,
        str(fit.shape),
        max(0, round(fit.level)),
        None if fit.onset is None else onset_generation(timeline, fit),
        None if capacity is None else round(capacity),
        None if forecast is None else round(forecast),
        per,
        None if length is None else round(length.level),
        None if length is None else points * length.rate,
        adding_phase(timeline, path)[0] if is_owner else "",
        next(iter(stored_lines(timeline, path)), "") if is_owner else "",
    )
