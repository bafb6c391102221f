"""Lines of the program behind a leak: where it is stored, where it is made, where memory grew."""

import re
from collections import Counter
from collections.abc import Iterable

from ramledger.diagnose import thresholds
from ramledger.diagnose.finding import CodeLines, Explanation
from ramledger.events import BEGINS, UNCLOSED
from ramledger.run.timeline import Timeline

_INDEX = re.compile(r"\[[^\]]*\]")
_VARIABLES = "variables/"
_MOST = 3


def code_lines(timeline: Timeline, found: Explanation, phase: str) -> CodeLines:
    """The lines behind an explanation."""
    path, kind = found.culprit.path, found.culprit.type
    stored = found.added_in or stored_lines(timeline, path)
    made = [line for s in timeline.snapshots for line in s.code_lines.get(kind, ())]
    return CodeLines(
        tuple(_likeliest(stored, path, phase)),
        tuple(_likeliest(made, "", phase)),
        tuple(_grown(timeline)),
        tuple(_begun(timeline, path)),
        _unclosed(timeline, kind, phase),
    )


def stored_lines(timeline: Timeline, path: str) -> list[str]:
    """Lines of the container of this path, else of the variable that it begins with."""
    if not path:
        return []
    bare = without_indices(path)
    found: dict[str, None] = {}
    for snapshot in reversed(timeline.snapshots):
        for container in snapshot.containers:
            if without_indices(container.path) == bare:
                found.update(dict.fromkeys(container.added_in))
        for name, lines in snapshot.code_lines.items():
            if without_indices(name.removeprefix(_VARIABLES)) == bare:
                found.update(dict.fromkeys(lines))
    return list(found)


def _begun(timeline: Timeline, path: str) -> list[str]:
    bare = without_indices(path)
    found: dict[str, None] = {}
    for snapshot in timeline.snapshots if path else ():
        for name, lines in snapshot.code_lines.items():
            owner = name.removeprefix(BEGINS).removeprefix(_VARIABLES)
            if name.startswith(BEGINS) and without_indices(owner) == bare:
                found.update(dict.fromkeys(lines))
    return list(found)


def _unclosed(timeline: Timeline, kind: str, phase: str) -> tuple[tuple[str, str], ...]:
    lines = [s.code_lines.get(UNCLOSED + kind, ()) for s in timeline.snapshots]
    pairs = dict(pair for found in lines for pair in zip(found[::2], found[1::2], strict=False))
    return tuple((line, pairs[line]) for line in _likeliest(pairs, "", phase))


def without_indices(path: str, instead: str = "") -> str:
    """`Trainer.envs` of `Trainer.envs[*]`."""
    return _INDEX.sub(instead, path)


def _likeliest(lines: Iterable[str], path: str, phase: str) -> list[str]:
    """Lines in a method of the class that holds it before others, then those in the phase."""
    holder = path.partition(".")[0] + "."

    def rank(line: str) -> tuple[bool, bool]:
        function = function_of(line)
        return not function.startswith(holder), function.rpartition(".")[2] != phase

    return sorted(dict.fromkeys(lines), key=rank)[:_MOST]


def function_of(line: str) -> str:
    """`Journal.log` of `train.py:29 in Journal.log: self.pages.append(page)`."""
    return line.partition(" in ")[2].partition(": ")[0]


def text_of(line: str) -> str:
    """`self.pages.append(page)` of `train.py:29 in Journal.log: self.pages.append(page)`."""
    return line.partition(" in ")[2].partition(": ")[2]


def lines_while_growing(timeline: Timeline, phase: str) -> list[str]:
    """Lines that ran while memory came: all of the phase's own, elsewhere those with a part of it.

    A sample sees where the program lets other threads run, so the line itself may get little.
    """
    growth, total = _growth_by_line(timeline)
    least = thresholds.SMALL_PART * total
    return [
        line
        for line, size in growth.items()
        if size >= least or (size > 0 and function_of(line).rpartition(".")[2] == phase)
    ]


def _grown(timeline: Timeline) -> list[str]:
    """Lines that ran while most of the memory came."""
    growth, total = _growth_by_line(timeline)
    least = thresholds.MORE_THAN_CHANCE * total
    return [line for line, size in growth.most_common(_MOST) if size >= least]


def _growth_by_line(timeline: Timeline) -> tuple[Counter[str], int]:
    """After start-up; and the growth of all."""
    growth: Counter[str] = Counter()
    total = 0
    for event in timeline.function_growth:
        if event.t <= timeline.points[0].t:
            continue
        growth.update(event.line_growth_bytes)
        total += sum(max(0, size) for size in event.growth_bytes.values())
    return growth, total
