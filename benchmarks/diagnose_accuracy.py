"""How often `ramledger diagnose` is right: every scenario program, bare and with marked phases.

    python benchmarks/diagnose_accuracy.py [--set first] [--keep FOLDER] [--judge-only] [NAME...]

`--judge-only` judges the recordings in the folder again without running the programs.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.scenarios.diagnosed import (
    MODES,
    SETS,
    Expected,
    Grade,
    diagnose,
    grade,
    names,
    record,
)

QUESTIONS = ("place", "cause", "culprit", "rate", "onset")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--set", dest="sets", action="append", choices=SETS, default=[])
    parser.add_argument("--keep", type=Path, help="where to write and keep the recordings")
    parser.add_argument("--judge-only", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        grades = list(_grades(options.names or names(*options.sets), folder, options.judge_only))
    print("\n".join(table(grades)))


def _grades(chosen: Iterable[str], folder: Path, judge_only: bool) -> Iterable[Grade]:
    for name in chosen:
        for mode in MODES:
            out = folder / f"{name}-{mode}.ledger.jsonl"
            if not judge_only:
                record(name, mode, out)
            elif not out.exists():
                continue
            found = grade(Expected.of(name), mode, diagnose(out))
            print(_line(found), flush=True)
            yield found


def _line(found: Grade) -> str:
    wrong = [q for q in (*QUESTIONS, "kind") if getattr(found, q) is False]
    state = "ok  " if found.is_right else "MISS" if not found.verdict else "part"
    missed = f" (wrong: {', '.join(wrong)})" if wrong else ""
    return f"{state} {found.expected.name:28} {found.mode:6} {found.said}{missed}"


def table(grades: Sequence[Grade]) -> list[str]:
    """The confusion table, in Markdown."""
    lines = ["", "| question | bare | marked |", "|---|---|---|"]
    for title, of_leaks in (("leaks found", True), ("healthy runs called healthy", False)):
        lines.append(_row(title, grades, lambda g, w=of_leaks: g.verdict, of_leaks))
    lines.append(
        _row("false alarms", grades, lambda g: g.document["verdict"] == "leak", of_leaks=False)
    )
    titles = {"place": "right function (bare) or phase (marked)", "cause": "right cause",
              "culprit": "right culprit type", "rate": "rate within 20 %",
              "onset": "onset within 1 generation"}  # fmt: skip
    for question in QUESTIONS:
        lines.append(
            _row(titles[question], grades, lambda g, q=question: getattr(g, q) is True, True)
        )
    lines.append(_row("right healthy kind", grades, lambda g: g.kind is True, of_leaks=False))
    return lines


def _row(title: str, grades, holds, of_leaks: bool) -> str:  # type: ignore[no-untyped-def]
    cells = []
    for mode in MODES:
        asked = [g for g in grades if g.mode == mode and g.expected.leaks == of_leaks]
        cells.append(f"{sum(map(holds, asked))} of {len(asked)}")
    return f"| {title} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
