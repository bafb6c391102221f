"""Two runs of a program, before and after a change: fixed, better, same or worse, by owner."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ramledger.diagnose import thresholds
from ramledger.diagnose.finding import Diagnosis, GrowthLine, Verdict, known_bytes
from ramledger.diagnose.leak_words import per_iteration
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
class Rate:
    """Bytes a generation, or a minute, with an interval."""

    bytes: float = 0.0
    interval: tuple[float, float] = (0.0, 0.0)
    per: str = "generation"

    @classmethod
    def of_leaks(cls, diagnosis: Diagnosis) -> "Rate":
        """Of all leaks together; 0 without one."""
        leaks = diagnosis.leaks
        low, high = (sum(leak.interval_bytes[i] for leak in leaks) for i in (0, 1))
        per = leaks[0].per if leaks else "generation"
        return cls(sum(leak.bytes_per_generation for leak in leaks), (low, high), per)

    @classmethod
    def of_line(cls, line: GrowthLine | None, per: str) -> "Rate":
        """Of an account; 0 where it is not in the table."""
        if line is None:
            return cls(per=per)
        return cls(line.bytes_per_generation, line.interval_bytes, line.per)

    @property
    def text(self) -> str:
        """`6.0 MiB an iteration`."""
        return f"{format_bytes(round(self.bytes))} {per_iteration(self.per)}"

    def is_below(self, other: "Rate") -> bool:
        """Clearly: beyond both intervals."""
        return self.interval[1] < other.interval[0]

    def to_dict(self) -> dict[str, Any]:
        return {
            "bytes_per_generation": round(self.bytes),
            "interval_bytes": [known_bytes(bound) for bound in self.interval],
            "per": self.per,
        }


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """One owner in both runs: where it ends, and how fast it grows."""

    account: str
    before_bytes: int
    after_bytes: int
    before_rate: Rate
    after_rate: Rate

    @property
    def is_worth_a_word(self) -> bool:
        return _differs(self.before_bytes, self.after_bytes) or self._grows_otherwise

    @property
    def _grows_otherwise(self) -> bool:
        old, new = self.before_rate, self.after_rate
        is_large = abs(new.bytes - old.bytes) >= thresholds.LEAST_RATE_BYTES
        return is_large and old.per == new.per and (old.is_below(new) or new.is_below(old))

    def to_dict(self) -> dict[str, Any]:
        return {
            "account": self.account,
            "before_bytes": self.before_bytes,
            "after_bytes": self.after_bytes,
            "before_rate": self.before_rate.to_dict(),
            "after_rate": self.after_rate.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """`change` in a word, a sentence, the rates of the leaks, and the owners that differ."""

    change: Change
    sentence: str
    before_rate: Rate
    after_rate: Rate
    owners: tuple[OwnerChange, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        rates = {"before_rate": self.before_rate.to_dict(), "after_rate": self.after_rate.to_dict()}
        owners = [owner.to_dict() for owner in self.owners]
        return {"change": str(self.change), "sentence": self.sentence, **rates, "owners": owners}


def compare(before: Diagnosis, after: Diagnosis) -> Comparison:
    """What became of a program between two recordings."""
    old, new = Rate.of_leaks(before), Rate.of_leaks(after)
    change, sentence = _judged(before, after, old, new)
    return Comparison(change, sentence, old, new, _owners(before, after))


def _judged(before: Diagnosis, after: Diagnosis, old: Rate, new: Rate) -> tuple[Change, str]:
    if after.verdict is Verdict.UNDECIDED:
        return Change.UNDECIDED, f"undecided whether it still leaks: {after.reason}"
    if before.verdict is Verdict.LEAK and after.verdict is Verdict.HEALTHY:
        return Change.FIXED, f"the leak is gone: {old.text} before"
    if before.verdict is Verdict.LEAK:
        return _rates(old, new), f"it still leaks: {old.text} before, {new.text} now"
    if after.verdict is Verdict.LEAK:
        return Change.WORSE, f"it leaks now, {new.text}, and did not before"
    return _levels(before, after)


def _rates(old: Rate, new: Rate) -> Change:
    """Beyond both intervals, or the same."""
    if old.per != new.per:
        return Change.UNDECIDED
    if new.is_below(old):
        return Change.BETTER
    return Change.WORSE if old.is_below(new) else Change.SAME


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
            name,
            _end(old.get(name)),
            _end(new.get(name)),
            Rate.of_line(old.get(name), _unit(before)),
            Rate.of_line(new.get(name), _unit(after)),
        )
        for name in old.keys() | new.keys()
    ]
    kept = [row for row in rows if row.is_worth_a_word]
    kept.sort(key=lambda row: (-abs(row.after_bytes - row.before_bytes), row.account))
    return tuple(kept[:_MOST_OWNERS])


def _unit(diagnosis: Diagnosis) -> str:
    return diagnosis.growth[0].per if diagnosis.growth else "generation"


def _end(line: GrowthLine | None) -> int:
    """Where it ends: at its capacity, at the planned end, or where it is."""
    return 0 if line is None else line.end_bytes
