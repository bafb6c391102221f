"""Where memory grew, for the page: iteration × phase, or function × time where no phase is known.

Phases and the time between them sum to the growth of RSS, iteration by iteration; long runs are
summed into fewer columns. What the verdict is about is marked.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.growth_places import phase_spans
from ramledger.report.growth_captions import phases_caption, table_caption
from ramledger.report.html.page_snapshots import Names
from ramledger.run.timeline import Point, Timeline
from ramledger.units import format_delta

PHASES = "phases"
BETWEEN_PHASES, REST = "between phases", "other phases, and between"
MAX_COLUMNS = 120
MAX_ROWS = 16
MAX_TICKS = 400
MAX_BANDS = 600
MAX_FUNCTION_TIMES = 300
MAX_FUNCTIONS = 8
_ENOUGH_TIMES = 6

Column = tuple[int, int, float, float]  # iterations from, to; seconds from, to


def growth_document(
    timeline: Timeline, names: Names, diagnosis: Diagnosis | None
) -> dict[str, Any]:
    """Iterations, phases as bands in time, the heat map, functions by time, and captions."""
    return {
        "by_generation": timeline.by_generation,
        "generations": _ticks(timeline),
        "bands": _bands(timeline, names),
        "heat": heat_map(timeline, diagnosis),
        "functions": _functions(timeline, names),
        "caption": "" if diagnosis is None else table_caption(diagnosis),
    }


def heat_map(timeline: Timeline, diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    """The map, with the row that the verdict names, and how its sums relate to the verdict."""
    heat = _heat_map(timeline)
    if heat is None:
        return None
    rows = heat["rows"]
    caption = [_sum_caption(heat, timeline), phases_caption(diagnosis, rows)]
    return {
        **heat,
        "culprit": _culprit(rows, diagnosis, timeline),
        "caption": " ".join(filter(None, caption)),
    }


def _culprit(rows: Sequence[str], diagnosis: Diagnosis | None, timeline: Timeline) -> int | None:
    """The row of the phase, or of the function, that the fastest leak is in.

    What the function with the loop does itself is in none of its phases.
    """
    phase = diagnosis.leaks[0].phase if diagnosis is not None and diagnosis.leaks else ""
    if not phase:
        return None
    wanted = [phase]
    loops = {event.loop.function for event in timeline.function_growth if event.loop is not None}
    if phase in {loop.partition(":")[2] for loop in loops}:
        wanted += [BETWEEN_PHASES, REST]
    found = [at for name in wanted for at, row in enumerate(rows) if _is_row(name, row)]
    return found[0] if found else None


def _is_row(name: str, row: str) -> bool:
    return name in (row, row.partition(":")[2])


def _sum_caption(heat: Mapping[str, Any], timeline: Timeline) -> str:
    if heat["kind"] != PHASES:
        return ""
    first, last = timeline.points[0], timeline.points[-1]
    return (
        f"From the end of iteration {first.generation} to that of {last.generation} the rows sum "
        f"to the growth of RSS, {format_delta(_rss(last) - _rss(first))}."
    )


def _rss(point: Point) -> int:
    return point.anon_bytes + point.file_bytes


def _heat_map(timeline: Timeline) -> dict[str, Any] | None:
    """By phase where phases are known; else by function, if there are enough measurements."""
    columns = _columns(timeline)
    by_phase = _phase_heat(timeline, columns) if timeline.by_generation else None
    by_function = _function_heat(timeline)
    if by_phase or (by_function and len(by_function["columns"]) >= _ENOUGH_TIMES):
        return by_phase or by_function
    return (_level_heat(timeline, columns) if timeline.by_generation else None) or by_function


def _ticks(timeline: Timeline) -> list[list[float]]:
    if not timeline.by_generation:
        return []
    points = timeline.points
    step = 1 + len(points) // MAX_TICKS
    shown = points[::step] if (len(points) - 1) % step == 0 else [*points[::step], points[-1]]
    return [[p.generation, round(p.t, 3), _rss(p)] for p in shown]


def _bands(timeline: Timeline, names: Names) -> list[list[float]]:
    spans = phase_spans(timeline) if timeline.by_generation else []
    if len(spans) > MAX_BANDS:
        return []  # thinner than a pixel each
    return [[round(a, 3), round(b, 3), names.number(name)] for a, b, name in spans]


def _columns(timeline: Timeline) -> list[Column]:
    """Each from the iteration after the column before it: short ones are reported together."""
    points = timeline.points
    per_column = -(-len(points) // MAX_COLUMNS) if points else 1
    columns: list[Column] = []
    first, before = points[0].generation if points else 0, 0.0
    for at in range(0, len(points), per_column):
        last = points[min(at + per_column, len(points)) - 1]
        columns.append((first, last.generation, round(before, 3), last.t))
        first, before = last.generation + 1, last.t
    return columns


def _phase_heat(timeline: Timeline, columns: Sequence[Column]) -> dict[str, Any] | None:
    """Growth by phase, and what is left of that of RSS; before the first point nothing is left."""
    phases, points = timeline.phases, timeline.points
    if not phases:
        return None
    ends = [column[1] for column in columns]
    total: Counter[str] = Counter()
    for phase in phases:
        total[phase.name] += round(abs(phase.growth_bytes))
    largest = {name for name, _ in total.most_common(MAX_ROWS)}
    cells: dict[str, list[int]] = {n: [0] * len(columns) for n in total if n in largest}
    level = {point.generation: _rss(point) for point in points}
    levels = [level[points[0].generation], *(level[end] for end in ends)]
    left = [after - before for before, after in pairwise(levels)]
    for phase in phases:
        at = bisect_left(ends, phase.generation)
        if at == len(ends):
            continue
        grown = round(phase.growth_bytes)
        if phase.name in largest:
            cells[phase.name][at] += grown
            if phase.generation > points[0].generation:
                left[at] -= grown
    if any(left):
        cells[BETWEEN_PHASES if len(total) <= MAX_ROWS else REST] = left
    return _heat(PHASES, cells, columns)


def _function_heat(timeline: Timeline) -> dict[str, Any] | None:
    events = timeline.function_growth
    step = 1 + len(events) // MAX_COLUMNS
    columns: list[Column] = []
    wanted = _largest_functions(timeline)
    cells: dict[str, list[int]] = {name: [] for name in wanted}
    before = 0.0
    for at in range(0, len(events), step):
        part = events[at : at + step]
        columns.append((len(columns), len(columns), round(before, 3), round(part[-1].t, 3)))
        before = part[-1].t
        for name in wanted:
            cells[name].append(sum(event.growth_bytes.get(name, 0) for event in part))
    return _heat("functions", cells, columns) if cells else None


def _largest_functions(timeline: Timeline) -> list[str]:
    """The functions with the most growth, in the order in which they first grew."""
    total: Counter[str] = Counter()
    for event in timeline.function_growth:
        for name, size in event.growth_bytes.items():
            total[name] += abs(size)
    largest = {name for name, _ in total.most_common(MAX_ROWS)}
    return [name for name in total if name in largest]


def _level_heat(timeline: Timeline, columns: Sequence[Column]) -> dict[str, Any] | None:
    """How the level changed, iteration by iteration."""
    points = {point.generation: point for point in timeline.points}
    ends = [points[column[1]] for column in columns]
    if len(ends) < 2:
        return None
    cells = {"RSS": [0, *(_rss(b) - _rss(a) for a, b in pairwise(ends))]}
    if any(point.children_bytes for point in ends):
        grown = [b.children_bytes - a.children_bytes for a, b in pairwise(ends)]
        cells["other processes"] = [0, *grown]
    return _heat("generations", cells, columns)


def _heat(kind: str, cells: Mapping[str, list[int]], columns: Sequence[Column]) -> dict[str, Any]:
    return {
        "kind": kind,
        "columns": [list(column) for column in columns],
        "rows": list(cells),
        "cells": list(cells.values()),
    }


def _functions(timeline: Timeline, names: Names) -> list[list[Any]]:
    """[t, [[function, bytes]…]]: what grew since the line before, the most first."""
    events = timeline.function_growth
    step = 1 + len(events) // MAX_FUNCTION_TIMES
    rows = []
    for at in range(0, len(events), step):
        part = events[at : at + step]
        total: dict[str, int] = defaultdict(int)
        for event in part:
            for name, size in event.growth_bytes.items():
                total[name] += size
        top = sorted(total.items(), key=lambda item: -item[1])[:MAX_FUNCTIONS]
        rows.append([round(part[-1].t, 3), [[names.number(n), size] for n, size in top]])
    return rows
