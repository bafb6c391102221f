"""Judges every recording of the corpus and says what is right: the confusion table and a line each.

python -m tests.corpus.judge [NAME...] [--write]        --write accepts: it renews judgement.txt
"""

import argparse
import json
import lzma
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from ramledger.diagnose.verdict import diagnose
from ramledger.run.model import Run
from tests.corpus.labels import HERE, MODES, RECORDINGS, Label, modes, programs

JUDGEMENT = HERE / "judgement.txt"
DOCUMENT = HERE.parents[1] / "docs" / "accuracy-diagnose.md"
CALIBRATION = HERE.parents[1] / "src" / "ramledger" / "diagnose" / "calibration.json"
_MARKS = ("<!-- judged -->\n", "<!-- /judged -->\n")
MIB = 1 << 20
RATE_ERROR = 0.2
ONSET_ERROR = 1
SUFFIX = ".jsonl.xz"
QUESTIONS = {
    "place": "right function (bare) or phase (marked)",
    "cause": "right cause",
    "culprit": "right culprit type",
    "rate": "rate within 20 %",
    "onset": "onset within 1 iteration",
}
NO_LEAK = "no leak"
_VERDICTS = ("leak", "healthy", "undecided")


class Told(NamedTuple):
    """One finding: what it is of, how sure it said to be, and whether it is right."""

    key: str
    confidence: float
    is_right: bool


@dataclass(frozen=True)
class Grade:
    """One diagnosis against its label; None where a question does not apply."""

    label: Label
    mode: str
    verdict: str
    said: str
    place: bool | None = None
    cause: bool | None = None
    culprit: bool | None = None
    rate: bool | None = None
    onset: bool | None = None
    kind: bool | None = None
    told: tuple["Told", ...] = ()

    @property
    def name(self) -> str:
        return f"{self.label.name}-{self.mode}"

    @property
    def line(self) -> str:
        """What stands in judgement.txt."""
        wrong = [q for q in (*QUESTIONS, "kind") if getattr(self, q) is False]
        state = "MISS" if self.verdict != self.label.verdict else "part" if wrong else "ok"
        missed = f"  (wrong: {', '.join(wrong)})" if wrong else ""
        return f"{state:4} {self.name:44} {self.said}{missed}"


def diagnosis_of(path: Path) -> dict[str, Any]:
    """What `ramledger diagnose --json` says of a recording."""
    with tempfile.NamedTemporaryFile(suffix=".ledger.jsonl") as file:
        file.write(lzma.decompress(path.read_bytes()))
        file.flush()
        document: dict[str, Any] = diagnose(Run.read(file.name)).to_dict()
    return document


def recordings(names: Iterable[str] = ()) -> list[Path]:
    """The recordings of these programs, or all."""
    found = sorted(RECORDINGS.glob(f"*{SUFFIX}"))
    wanted = set(names)
    return [path for path in found if not wanted or name_and_mode(path)[0] in wanted]


def name_and_mode(path: Path) -> tuple[str, str]:
    """`leaky_holes-loaded-bare.jsonl.xz`: of `leaky_holes-loaded`, `bare`."""
    name, _, mode = path.name.removesuffix(SUFFIX).rpartition("-")
    return name, mode


def judged(path: Path) -> Grade:
    """One recording, judged and graded."""
    name, mode = name_and_mode(path)
    return grade(Label.of(name), mode, diagnosis_of(path))


def judge_all(paths: Sequence[Path]) -> list[Grade]:
    """Every recording, on two cores where there are."""
    workers = min(2, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(judged, paths, chunksize=8))


def grade(label: Label, mode: str, document: dict[str, Any]) -> Grade:
    """Compare a diagnosis with its label."""
    leaks = [f for f in document["findings"] if f["kind"] == "leak"]
    if not label.leaks:
        kinds = {f["kind"] for f in document["findings"]} or {"none"}
        answers = {"kind": bool(kinds & set(label.kinds))}
    else:
        answers = _answers(label, mode, leaks[0]) if leaks else {}
    asked = {question: right for question, right in answers.items() if question in label.questions}
    told = tuple(_told(label, document["verdict"], finding) for finding in document["findings"])
    return Grade(label, mode, document["verdict"], summary(document), **asked, told=told)


def _answers(label: Label, mode: str, leak: dict[str, Any]) -> dict[str, bool]:
    places = (label.phase,) if mode == "marked" else (*label.functions, label.phase)
    onset, culprit = leak["onset_generation"], leak["culprit"]["type"].lower()
    error = abs(leak["bytes_per_generation"] - label.bytes_per_iteration)
    return {
        "place": leak["phase"] in places,
        "cause": leak["cause"] in label.causes,
        "culprit": any(wanted.lower() in culprit for wanted in label.culprits),
        "rate": error <= RATE_ERROR * label.bytes_per_iteration,
        "onset": onset is not None and abs(onset - (label.onset or 0)) <= ONSET_ERROR,
    }


def _told(label: Label, verdict: str, finding: dict[str, Any]) -> Told:
    """A leak is right with its cause; that something is no leak, unless the leak was missed."""
    if finding["kind"] != "leak":
        return Told(NO_LEAK, finding.get("confidence", 0.0), not label.leaks or verdict == "leak")
    key = f"{finding['cause']} guessed" if finding.get("is_guess") else finding["cause"]
    return Told(
        key, finding.get("confidence", 0.0), label.leaks and finding["cause"] in label.causes
    )


def reliability(grades: Sequence[Grade]) -> list[str]:
    """How often findings of each confidence are right, in Markdown."""
    lines = ["| confidence | findings | right |", "|---|---|---|"]
    told = [one for grade in grades for one in grade.told if one.key != NO_LEAK]
    for low, high in pairwise((0.0, 0.6, 0.8, 0.9, 0.95, 1.01)):
        within = [one for one in told if low <= one.confidence < high]
        if within:
            right = sum(one.is_right for one in within)
            mean = sum(one.confidence for one in within) / len(within)
            lines.append(f"| {mean:.0%} | {len(within)} | {right / len(within):.0%} |")
    return lines


def calibration(grades: Sequence[Grade]) -> str:
    """The whole of calibration.json."""
    told = [one for grade in grades for one in grade.told]
    counts = {
        key: {"right": sum(one.is_right for one in told if one.key == key),
              "of": sum(one.key == key for one in told)}
        for key in sorted({one.key for one in told})
    }  # fmt: skip
    return json.dumps(counts, indent=1) + "\n"


def summary(document: dict[str, Any]) -> str:
    """A diagnosis on one line."""
    leaks = [f for f in document["findings"] if f["kind"] == "leak"]
    if not leaks:
        kinds = ", ".join(f["kind"] for f in document["findings"])
        return f"{document['verdict']} [{kinds}]"
    leak = leaks[0]
    low, high = (bound / MIB for bound in leak["interval_bytes"])
    return (
        f"{document['verdict']} {leak['bytes_per_generation'] / MIB:.1f} MiB "
        f"[{low:.1f}, {high:.1f}] in {leak['phase'] or '?'} since {leak['onset_generation']}, "
        f"{leak['cause']}: {leak['culprit']['type']} @ {leak['culprit']['path']}"
    )


def text_of(grades: Sequence[Grade]) -> str:
    """The whole of judgement.txt."""
    missing = [f"none {name}-{mode}" for name, mode in not_recorded()]
    return "\n".join([*table(grades), "", *sorted(g.line for g in grades), *missing]) + "\n"


def not_recorded() -> list[tuple[str, str]]:
    """Programs and modes that `python -m tests.corpus.record --missing` would record."""
    recorded = {name_and_mode(path) for path in recordings()}
    return [(n, m) for n in programs() for m in modes(n) if (n, m) not in recorded]


def table(grades: Sequence[Grade]) -> list[str]:
    """The confusion table, in Markdown."""
    lines = ["| of each label | mode | " + " | ".join(f"judged {v}" for v in _VERDICTS) + " |"]
    lines.append("|---" * (2 + len(_VERDICTS)) + "|")
    for truth in ("leak", "healthy"):
        for mode in MODES:
            asked = [g for g in grades if g.mode == mode and g.label.verdict == truth]
            counts = [str(sum(g.verdict == verdict for g in asked)) for verdict in _VERDICTS]
            lines.append(f"| {truth} | {mode} | {' | '.join(counts)} |")
    lines += ["", "| question | bare | marked |", "|---|---|---|"]
    for question, title in (QUESTIONS | {"kind": "right healthy kind"}).items():
        lines.append(
            f"| {title} | " + " | ".join(_share(grades, m, question) for m in MODES) + " |"
        )
    return [*lines, "", *reliability(grades)]


def _share(grades: Sequence[Grade], mode: str, question: str) -> str:
    asked = [g for g in grades if g.mode == mode and question in g.label.questions]
    return f"{sum(getattr(g, question) is True for g in asked)} of {len(asked)}"


def document_with(grades: Sequence[Grade]) -> str:
    """docs/accuracy-diagnose.md with the tables of today."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(_MARKS[0])
    return "\n".join(
        [before + _MARKS[0], *table(grades), "", _MARKS[1] + rest.partition(_MARKS[1])[2]]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", action="store_true", help="renew judgement.txt and docs/")
    options = parser.parse_args(arguments)
    if options.write and options.names:
        parser.error("--write takes the whole corpus: name no programs")
    grades = judge_all(recordings(options.names))
    print(text_of(grades), end="")
    if options.write:
        JUDGEMENT.write_text(text_of(grades), encoding="utf-8")
        DOCUMENT.write_text(document_with(grades), encoding="utf-8")
        CALIBRATION.write_text(calibration(grades), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
