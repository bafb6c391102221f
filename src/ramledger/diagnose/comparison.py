"""Two runs of a program, before and after a change: fixed, better, same or worse, by owner."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ramledger.diagnose.finding import Diagnosis, GrowthLine, Verdict
from ramledger.units import MIB, format_bytes

_WORTH_BYTES, _WORTH_SHARE = 8 * MIB, 0.05  # smaller differences happen between equal runs
_MOST_OWNERS = 12


class Change(StrEnum):
    """What a change to a program did to its memory."""

    FIXED = "fixed"
    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """One owner in both runs: where it ends, and how fast it grows."""

    account: str
    before_bytes: int
    after_bytes: int
    before_rate: float
    after_rate: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "account": self.account,
            "before_bytes": self.before_bytes,
            "after_bytes": self.after_bytes,
            "before_bytes_per_generation": round(self.before_rate),
            "after_bytes_per_generation": round(self.after_rate),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """`change` in a word, a sentence, and the owners that differ."""

    change: Change
    sentence: str
    owners: tuple[OwnerChange, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "change": str(self.change),
            "sentence": self.sentence,
            "owners": [owner.to_dict() for owner in self.owners],
        }


def compare(before: Diagnosis, after: Diagnosis) -> Comparison:
    """What became of a program between two recordings."""
    change, sentence = _judged(before, after)
    return Comparison(change, sentence, _owners(before, after))


def _judged(before: Diagnosis, after: Diagnosis) -> tuple[Change, str]:
    if after.verdict is Verdict.UNDECIDED:
        return Change.UNDECIDED, f"whether it leaks still is undecided: {after.reason}"
    old, new = _rate(before), _rate(after)
    if before.verdict is Verdict.LEAK and after.verdict is Verdict.HEALTHY:
        return Change.FIXED, f"the leak is gone: {format_bytes(old)} a generation before"
    if before.verdict is Verdict.LEAK:
        was, now = format_bytes(old), format_bytes(new)
        change = _rates(before, after)
        return change, f"it still leaks: {was} a generation before, {now} now"
    if after.verdict is Verdict.LEAK:
        rate = format_bytes(new)
        return Change.WORSE, f"it leaks now, {rate} a generation, and did not before"
    return _levels(before, after)


def _rate(diagnosis: Diagnosis) -> int:
    return sum(leak.bytes_per_generation for leak in diagnosis.leaks)


def _rates(before: Diagnosis, after: Diagnosis) -> Change:
    """Beyond both intervals, or the same."""
    low, high = (sum(leak.interval_bytes[i] for leak in before.leaks) for i in (0, 1))
    least, most = (sum(leak.interval_bytes[i] for leak in after.leaks) for i in (0, 1))
    if most < low:
        return Change.BETTER
    return Change.WORSE if least > high else Change.SAME


def _levels(before: Diagnosis, after: Diagnosis) -> tuple[Change, str]:
    if before.outlook is None or after.outlook is None:
        return Change.SAME, "no leak in either"
    old, new = before.outlook.peak_bytes, after.outlook.peak_bytes
    both = f"{format_bytes(old)} before, {format_bytes(new)} now"
    if not _differs(old, new):
        return Change.SAME, f"no leak in either, and the same peak: {both}"
    if new > old:
        return Change.WORSE, f"no leak in either, but it needs more: {both}"
    return Change.BETTER, f"no leak in either, and it needs less: {both}"


def _differs(old: float, new: float) -> bool:
    return abs(new - old) >= max(_WORTH_BYTES, _WORTH_SHARE * max(old, new))


def _owners(before: Diagnosis, after: Diagnosis) -> tuple[OwnerChange, ...]:
    old = {line.account: line for line in before.growth}
    new = {line.account: line for line in after.growth}
    rows = [
        OwnerChange(
            name, _end(old.get(name)), _end(new.get(name)), _speed(old, name), _speed(new, name)
        )
        for name in old.keys() | new.keys()
    ]
    kept = [row for row in rows if _differs(row.before_bytes, row.after_bytes)]
    kept.sort(key=lambda row: (-abs(row.after_bytes - row.before_bytes), row.account))
    return tuple(kept[:_MOST_OWNERS])


def _end(line: GrowthLine | None) -> int:
    """Where it ends: at its capacity, at the planned end, or where it is."""
    return 0 if line is None else line.end_bytes


def _speed(lines: dict[str, GrowthLine], name: str) -> float:
    return lines[name].bytes_per_generation if name in lines else 0.0
