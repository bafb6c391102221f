"""How much each threshold of diagnose matters: the corpus, judged again with it changed.

python -m tests.corpus.sensitivity [THRESHOLD...] [--every N] [--times 0.7 1.4]
"""

import argparse
import lzma
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ramledger.diagnose import growth_table, thresholds, verdict
from ramledger.run.model import Run
from ramledger.run.shapes import Fit, Points, fit
from tests.corpus.judge import QUESTIONS, Grade, grade, name_and_mode, recordings
from tests.corpus.labels import Label

TIMES = (0.7, 1.4)
_UNITS = ("KIB", "MIB")


class Recorded(NamedTuple):
    """One recording, read."""

    run: Run
    label: Label
    mode: str


class Score(NamedTuple):
    """How right a diagnosis is; the larger, the better."""

    has_right_verdict: bool
    minus_wrong_answers: int


class Change(NamedTuple):
    """Judgements that a changed threshold makes worse, and better."""

    worse: int
    better: int

    def __str__(self) -> str:
        said = [f"{n} {what}" for n, what in zip(self, self._fields, strict=True) if n]
        return ", ".join(said) or "none"


def names() -> list[str]:
    """Every threshold."""
    return [name for name in vars(thresholds) if name.isupper() and name not in _UNITS]


def read(path: Path) -> Recorded:
    name, mode = name_and_mode(path)
    with tempfile.NamedTemporaryFile(suffix=".ledger.jsonl") as file:
        file.write(lzma.decompress(path.read_bytes()))
        file.flush()
        return Recorded(Run.read(file.name), Label.of(name), mode)


def scores(recorded: Sequence[Recorded]) -> list[Score]:
    return [
        score(grade(one.label, one.mode, verdict.diagnose(one.run).to_dict())) for one in recorded
    ]


def score(found: Grade) -> Score:
    wrong = sum(getattr(found, question) is False for question in (*QUESTIONS, "kind"))
    return Score(found.verdict == found.label.verdict, -wrong)


@contextmanager
def changed(name: str, times: float) -> Iterator[None]:
    """With a threshold multiplied; a count stays whole, and a share below one."""
    value = getattr(thresholds, name)
    other = value * times
    if isinstance(value, int):
        other = max(1, round(other))
    elif value < 1:
        other = min(other, 0.99)
    setattr(thresholds, name, other)
    try:
        yield
    finally:
        setattr(thresholds, name, value)


def change(
    recorded: Sequence[Recorded], before: Sequence[Score], name: str, times: float
) -> Change:
    with changed(name, times):
        pairs = list(zip(before, scores(recorded), strict=True))
    return Change(sum(new < old for old, new in pairs), sum(new > old for old, new in pairs))


def judge_faster() -> None:
    """The same series are fitted once, and rows that no question asks for are left out."""
    known: dict[tuple[tuple[tuple[float, float], ...], float | None, float], Fit] = {}

    def remembered(points: Points, *, capacity: float | None = None, quantum: float = 0.0) -> Fit:
        key = (tuple(points), capacity, quantum)
        if key not in known:
            known[key] = fit(points, capacity=capacity, quantum=quantum)
        return known[key]

    setattr(growth_table, "fit", remembered)  # noqa: B010
    for rows in ("growth_lines", "outside_growth"):
        setattr(verdict, rows, lambda table, planned: ())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="THRESHOLD")
    parser.add_argument("--every", type=int, default=1, help="take only every Nth recording")
    parser.add_argument("--times", type=float, nargs="+", default=TIMES)
    options = parser.parse_args(arguments)
    judge_faster()
    recorded = [read(path) for path in recordings()[:: options.every]]
    before = scores(recorded)
    print("| threshold | value | " + " | ".join(f"{times:g}x" for times in options.times) + " |")
    print("|---" * (2 + len(options.times)) + "|")
    for name in options.names or names():
        found = [str(change(recorded, before, name, times)) for times in options.times]
        row = " | ".join([name, f"{getattr(thresholds, name):.10g}", *found])
        print(f"| {row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
