"""Where memory grew, for the page: generation × phase, or function × time where no phase is known.

Long runs are summed into fewer columns, so that every byte of growth is still in one of them.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ramledger.diagnose.growth_places import phase_spans
from ramledger.report.html.page_snapshots import Names
from ramledger.run.timeline import PhaseGrowth, Timeline

MAX_COLUMNS = 120
MAX_ROWS = 16
MAX_TICKS = 400
MAX_BANDS = 600
MAX_FUNCTION_TIMES = 300
MAX_FUNCTIONS = 8
_ENOUGH_TIMES = 6

Column = tuple[int, int, float, float]  # generations from, to; seconds from, to


def growth_document(timeline: Timeline, names: Names) -> dict[str, Any]:
    """Generations, phases as bands in time, the heat map, and functions by time."""
    return {
        "by_generation": timeline.by_generation,
        "generations": _ticks(timeline),
        "bands": _bands(timeline, names),
        "heat": _heat_map(timeline),
        "functions": _functions(timeline, names),
    }


def _heat_map(timeline: Timeline) -> dict[str, Any] | None:
    """By phase where phases are known; else by function, if there are enough measurements."""
    columns = _columns(timeline)
    by_phase = _phase_heat(timeline.phases, columns) if timeline.by_generation else None
    by_function = _function_heat(timeline)
    if by_phase or (by_function and len(by_function["columns"]) >= _ENOUGH_TIMES):
        return by_phase or by_function
    return (_level_heat(timeline, columns) if timeline.by_generation else None) or by_function


def _ticks(timeline: Timeline) -> list[list[float]]:
    if not timeline.by_generation:
        return []
    points = timeline.points
    step = 1 + len(points) // MAX_TICKS
    return [[p.generation, round(p.t, 3), p.anon_bytes + p.file_bytes] for p in points[::step]]


def _bands(timeline: Timeline, names: Names) -> list[list[float]]:
    spans = phase_spans(timeline) if timeline.by_generation else []
    if len(spans) > MAX_BANDS:
        return []  # thinner than a pixel each
    return [[round(a, 3), round(b, 3), names.number(name)] for a, b, name in spans]


def _columns(timeline: Timeline) -> list[Column]:
    points = timeline.points
    per_column = -(-len(points) // MAX_COLUMNS) if points else 1
    columns: list[Column] = []
    before = 0.0
    for at in range(0, len(points), per_column):
        part = points[at : at + per_column]
        columns.append((part[0].generation, part[-1].generation, round(before, 3), part[-1].t))
        before = part[-1].t
    return columns


def _phase_heat(phases: Sequence[PhaseGrowth], columns: Sequence[Column]) -> dict[str, Any] | None:
    ends = [column[1] for column in columns]
    total: Counter[str] = Counter()
    for phase in phases:
        total[phase.name] += round(abs(phase.growth_bytes))
    largest = {name for name, _ in total.most_common(MAX_ROWS)}
    cells: dict[str, list[float]] = {n: [0.0] * len(columns) for n in total if n in largest}
    for phase in phases:
        at = bisect_left(ends, phase.generation)
        if at < len(ends) and phase.name in largest:
            cells[phase.name][at] += phase.growth_bytes
    return _heat("phases", cells, columns) if cells else None


def _function_heat(timeline: Timeline) -> dict[str, Any] | None:
    events = timeline.function_growth
    step = 1 + len(events) // MAX_COLUMNS
    columns: list[Column] = []
    wanted = _largest_functions(timeline)
    cells: dict[str, list[float]] = {name: [] for name in wanted}
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
    """How the level changed, generation by generation."""
    level = {p.generation: p.anon_bytes + p.file_bytes + p.children_bytes for p in timeline.points}
    ends = [float(level[column[1]]) for column in columns]
    if len(ends) < 2:
        return None
    grown = [0.0, *(after - before for before, after in pairwise(ends))]
    return _heat("generations", {"memory": grown}, columns)


def _heat(kind: str, cells: Mapping[str, list[float]], columns: Sequence[Column]) -> dict[str, Any]:
    rows = list(cells)
    if len(rows) > MAX_ROWS:
        largest = sorted(rows, key=lambda name: -sum(map(abs, cells[name])))[:MAX_ROWS]
        rows = [name for name in rows if name in largest]
    return {
        "kind": kind,
        "columns": [list(column) for column in columns],
        "rows": rows,
        "cells": [[round(size) for size in cells[name]] for name in rows],
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
