"""Where memory grows: the phase, or the function where phases do not show it."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, TypeVar

from ramledger.diagnose import thresholds
from ramledger.diagnose.code_lines import function_of, without_indices
from ramledger.diagnose.growth_table import GrowthTable
from ramledger.events import FunctionGrowthEvent
from ramledger.run.timeline import Outside, PhaseGrowth, Timeline

_MARKED = ("explicit", "framework")  # or they were found in call stacks
_Item = TypeVar("_Item")
Where = Literal["inside", "children", "shm"]


def leaking_phase(table: GrowthTable) -> str:
    """The phase in which unexplained memory appears; a function where no phases are known."""
    timeline = table.timeline
    by_phase: dict[str, list[float]] = defaultdict(list)
    for phase in _settled(timeline.phases):
        by_phase[phase.name].append(phase.growth_bytes)
    if not by_phase:
        return _growing_function(timeline, "inside", table)
    growth = {name: median(values) for name, values in by_phase.items()}
    total = sum(sum(values) for values in by_phase.values())
    passes = max(len(values) for values in by_phase.values())
    # it comes in rare, large steps
    if max(growth.values()) < thresholds.GOOD_PART * total / passes:
        growth = {name: sum(values) / passes for name, values in by_phase.items()}
    filling_rate = _filled_per_point(table)
    if filling_rate > 0:
        # the buffer fills in one phase: take its share out where it fits best
        into = min(growth, key=lambda name: abs(growth[name] - filling_rate))
        growth[into] -= filling_rate
    best = max(growth, key=lambda name: growth[name])
    if growth[best] < thresholds.GOOD_PART * _growth_per_point(timeline) - filling_rate:
        # most of it appears outside of all phases
        return _growing_function(timeline, "inside", table) or best
    return best


def phase_of_lines(timeline: Timeline, lines: Sequence[str]) -> str:
    """The phase that is the function of one of these lines; where none is marked, the function."""
    functions = list(dict.fromkeys(function_of(line).rpartition(".")[2] for line in lines))
    names = {phase.name for phase in timeline.phases}.intersection(functions)
    if len(names) == 1:
        return names.pop()
    is_marked = any(phase.origin in _MARKED for phase in timeline.phases)
    return "" if is_marked or len(functions) != 1 else functions[0]


def adding_phase(timeline: Timeline, path: str) -> tuple[str, int]:
    """The phase that adds to the container of this path, and how much; '' if nobody counted."""
    known = timeline.elements_added
    same = [p for p in known if _name(p) == _name(path)] if path not in known else [path]
    total = sum((known[p] for p in same), Counter[str]())
    phase, added = next(iter(total.most_common(1)), ("", 0))
    is_steady = added >= thresholds.LEAST_COUNTED and added > thresholds.MOST * total.total()
    return (phase, added) if is_steady else ("", 0)


def _name(path: str) -> str:
    return without_indices(path).rpartition(".")[2]


def outside_phase(timeline: Timeline, where: Where) -> str:
    """The phase during which memory of children or /dev/shm grows; else the function."""
    by_phase: dict[str, float] = defaultdict(float)
    for phase in timeline.phases:
        by_phase[phase.name] += (
            phase.children_growth_bytes if where == "children" else phase.shm_growth_bytes
        )
    levels = [_level(row, where) for row in timeline.outside] or [0]
    total = max(levels) - min(levels)
    best = max(by_phase, key=lambda name: by_phase[name], default="")
    if best and by_phase[best] >= thresholds.GOOD_PART * total:
        return best
    return _phase_by_time(timeline, where) or _growing_function(timeline, where, None)


def _level(row: Outside, where: Where) -> int:
    return row.children_bytes if where == "children" else row.shm_bytes


def _filled_per_point(table: GrowthTable) -> float:
    """Bytes that filling buffers take from one point to the next, over the settled part."""
    points = _settled(table.timeline.points)
    if len(points) < 2:
        return 0.0
    first, last = float(points[0].generation), float(points[-1].generation)
    return (table.filled_at(last) - table.filled_at(first)) / (len(points) - 1)


def _settled(items: Sequence[_Item]) -> Sequence[_Item]:
    return items[int(thresholds.START * len(items)) :]


def _growth_per_point(timeline: Timeline) -> float:
    points = _settled(timeline.points)
    if not timeline.by_generation or len(points) < 2:
        return 0.0
    return (points[-1].anon_bytes - points[0].anon_bytes) / (len(points) - 1)


def _phase_by_time(timeline: Timeline, where: Where) -> str:
    """The phase during which samples from outside show growth; '' where none is marked."""
    spans = phase_spans(timeline)
    growth: dict[str, list[int]] = defaultdict(list)
    total = 0
    for before, after in pairwise(timeline.outside):
        grown = _level(after, where) - _level(before, where)
        total += max(0, grown)
        first = bisect_right(spans, before.t, key=lambda span: span[1])
        last = bisect_left(spans, after.t, key=lambda span: span[0])
        for name in {span[2] for span in spans[first:last]}:
            growth[name].append(grown)
    # the phase that all growth falls into; of several, the one that little else falls into
    covered = {name: sum(sizes) for name, sizes in growth.items()}
    most = max(covered.values(), default=0)
    density = {
        name: covered[name] / len(sizes)
        for name, sizes in growth.items()
        if covered[name] >= max(1.0, thresholds.NEARLY_ALL * most, thresholds.GOOD_PART * total)
    }
    return max(density, key=lambda name: density[name]) if density else ""


def phase_spans(timeline: Timeline) -> list[tuple[float, float, str]]:
    """(begin, end, name) of phases, laid one after the other up to each generation's end."""
    ends = {point.generation: point.t for point in timeline.points}
    by_generation: dict[int, list[PhaseGrowth]] = defaultdict(list)
    for phase in timeline.phases:
        by_generation[phase.generation].append(phase)
    spans = []
    for generation, phases in by_generation.items():
        if generation not in ends:
            continue
        at = ends[generation]
        for phase in reversed(phases):
            spans.append((at - phase.seconds, at, phase.name))
            at -= phase.seconds
    return sorted(spans)


def _growing_function(timeline: Timeline, where: Where, table: GrowthTable | None) -> str:
    points = _settled(timeline.points)
    begin = points[0].t if points else 0.0
    total: dict[str, float] = defaultdict(float)
    for event in timeline.function_growth:
        if event.t >= begin:
            for name, size in _by_function(event, where).items():
                total[name] += size
    filled = 0.0
    if points and table is not None:
        filled = table.filled_at(points[-1].generation) - table.filled_at(points[0].generation)
    if filled > 0 and total:
        total[min(total, key=lambda name: abs(total[name] - filled))] -= filled
    named = {name: size for name, size in total.items() if size > 0 and name not in ("?", "other")}
    return max(named, key=lambda name: named[name]).partition(":")[2] if named else ""


def _by_function(event: FunctionGrowthEvent, where: Where) -> Mapping[str, int]:
    if where == "inside":
        return event.growth_bytes
    return event.children_growth_bytes if where == "children" else event.shm_growth_bytes
