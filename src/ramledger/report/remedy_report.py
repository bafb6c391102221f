"""What remedies changed in a run: promised, and measured against an earlier run or the plan.

Runs that are not comparable get a sentence instead of a number.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ramledger.diagnose.advice import Advice
from ramledger.run.ending import ending_of
from ramledger.run.model import Run
from ramledger.units import format_bytes

_NO_DIFFERENCE = 0.02  # of the peak
_FEWER = 0.9  # of the other run's iterations: fewer are not the same training
_MOST_LINES = 4
_ENOUGH_ITERATIONS, _ENOUGH_SECONDS = 20, 5.0
_OWN_FAMILY = ("replay",)  # whose saving is seen in their own account, whatever else was applied


@dataclass(frozen=True, slots=True)
class Pace:
    """Iterations a second, over all but the first of them; None where they are too few to say."""

    per_second: float | None

    @classmethod
    def of(cls, run: Run) -> "Pace":
        rows = run.iterations.of(run.main_pid)
        if _iterations(run) < _ENOUGH_ITERATIONS or rows[-1].t - rows[0].t < _ENOUGH_SECONDS:
            return cls(None)
        done = rows[-1].generation - rows[0].generation
        return cls(done / (rows[-1].t - rows[0].t))


@dataclass(frozen=True, slots=True)
class Baseline:
    """The same training without remedies: as it was measured once, or as it was planned."""

    name: str
    peak_bytes: int
    families: dict[str, int]
    why_not: str = ""  # it says nothing about this run
    run: Run | None = None

    @classmethod
    def of(cls, run: Run, against: Run | None) -> "Baseline | None":
        """Of an earlier run if there is one, else of the plan that the run was given."""
        if against is not None:
            name = os.path.basename(against.path) or "the earlier run"
            why_not = _why_not_comparable(run, against)
            return cls(name, against.peak_bytes, _families(against), why_not, against)
        if run.plan is None or not run.plan.ram.needed_bytes:
            return None
        sizes: dict[str, int] = {}
        for account in run.plan.accounts:
            if account.where == "main process" and not account.transient:
                sizes[account.family] = sizes.get(account.family, 0) + account.bytes
        ended = ending_of(run)
        why_not = "" if ended.is_ordinary and not ended.exit_code else f"this run {ended.text}"
        return cls("the plan", run.plan.ram.needed_bytes, sizes, why_not)


@dataclass(frozen=True, slots=True)
class Remedy:
    """What one remedy did in a run. `saved_bytes`: None where nothing shows it by itself."""

    name: str
    did: tuple[str, ...]
    left: tuple[str, ...]
    promised_bytes: int = 0
    saved_bytes: int | None = None
    pays: bool | None = None

    @property
    def line(self) -> str:
        if not self.did:
            why = "; ".join(self.left) or "nothing here that it applies to"
            return f"{self.name} (not applied): {why}"
        parts = ["; ".join(self.did)]
        if self.promised_bytes:
            parts.append(f"promised {format_bytes(self.promised_bytes)}")
        if self.pays is False:
            parts.append("no saving measured, leave it off")
        elif self.saved_bytes is not None:
            parts.append(f"saved {format_bytes(self.saved_bytes)}")
        left = f"; not applied: {'; '.join(self.left)}" if self.left else ""
        return f"{self.name}: {', '.join(parts)}{left}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "did": list(self.did),
            "left": list(self.left),
            "promised_bytes": self.promised_bytes,
            "saved_bytes": self.saved_bytes,
            "pays": self.pays,
            "line": self.line,
        }


def remedies_of(run: Run, baseline: Baseline | None) -> list[Remedy]:
    """Each remedy of a run once, in the order in which they were heard of."""
    names = dict.fromkeys(event.name for event in run.remedies)
    applied = {event.name for event in run.remedies if event.is_applied}
    found = []
    for name in names:
        events = [event for event in run.remedies if event.name == name]
        saved = _saved_bytes(run, name, applied, baseline) if name in applied else None
        worth = _NO_DIFFERENCE * baseline.peak_bytes if baseline is not None else 0
        found.append(
            Remedy(
                name,
                tuple(event.text for event in events if event.is_applied),
                tuple(event.text for event in events if event.text and not event.is_applied),
                sum(event.saves_bytes for event in events if event.is_applied),
                saved,
                None if saved is None else saved >= worth,
            )
        )
    return found


def not_yet_applied(advice: Sequence[Advice], run: Run) -> list[Advice]:
    """Advice that names no remedy which was in force already."""
    asked = {event.name for event in run.remedies}
    names = [item.apply.partition("=")[0] for item in advice]
    return [
        replace(item, apply="") if name in asked else item
        for item, name in zip(advice, names, strict=True)
    ]


def remedy_lines(run: Run, against: Run | None = None) -> list[str]:
    """A few sentences for the end of a run; none where nothing was to be applied."""
    if not run.remedies and against is None:
        return []
    baseline = Baseline.of(run, against)
    lines = [remedy.line for remedy in remedies_of(run, baseline)]
    if len(lines) > _MOST_LINES:
        more = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 1 :] = [f"{more} more: see --json"]
    return [*lines, *compared(run, baseline)]


def remedies_document(run: Run, against: Run | None = None) -> dict[str, Any] | None:
    """The same for `--json`."""
    if not run.remedies and against is None:
        return None
    baseline = Baseline.of(run, against)
    document: dict[str, Any] = {
        "applied": [
            {"name": event.name, "text": event.text, "saves_bytes": event.saves_bytes}
            for event in run.remedies
            if event.is_applied
        ],
        "left": [
            {"name": event.name, "text": event.text}
            for event in run.remedies
            if event.text and not event.is_applied
        ],
        "each": [remedy.to_dict() for remedy in remedies_of(run, baseline)],
    }
    if baseline is not None:
        is_same = not baseline.why_not
        document["against"] = {
            "recording": against.path if against is not None else None,
            "peak_bytes": baseline.peak_bytes,
            "saved_bytes": baseline.peak_bytes - run.peak_bytes if is_same else None,
            "not_comparable": baseline.why_not or None,
            "iterations_per_second": [
                Pace.of(baseline.run).per_second if baseline.run is not None else None,
                Pace.of(run).per_second,
            ],
        }
    return document


def compared(run: Run, baseline: Baseline | None) -> Iterator[str]:
    """What was measured, or why nothing can be said of it."""
    if baseline is None:
        return
    before, after = baseline.peak_bytes, run.peak_bytes
    if baseline.why_not:
        yield f"not compared with {baseline.name}: {baseline.why_not}"
        return
    if not before:
        return
    share = after / before - 1
    if abs(share) < _NO_DIFFERENCE:
        yield f"measured: no saving, the peak is {format_bytes(after)} as in {baseline.name}"
    else:
        change = f"{abs(share):.0%} {'less' if share < 0 else 'more'}"
        sizes = f"{format_bytes(before)} → {format_bytes(after)}"
        yield f"measured: peak {sizes}, {change} than {baseline.name}"
    old = Pace.of(baseline.run).per_second if baseline.run is not None else None
    new = Pace.of(run).per_second
    if old and new:
        yield f"measured: {old:.3g} → {new:.3g} iterations a second ({new / old - 1:+.0%})"


def _saved_bytes(run: Run, name: str, applied: set[str], baseline: Baseline | None) -> int | None:
    """By the peak where there was one remedy, else by an account of its own."""
    if baseline is None or baseline.why_not:
        return None
    if len(applied) == 1:
        return baseline.peak_bytes - run.peak_bytes
    if name in _OWN_FAMILY and name in baseline.families:
        return baseline.families[name] - _families(run).get(name, 0)
    return None


def _families(run: Run) -> dict[str, int]:
    """The most that families of accounts held in the snapshots of the process that trains."""
    snapshots = run.main_snapshots
    found: dict[str, int] = {}
    for snapshot in filter(None, (snapshots.peak, snapshots.now) if snapshots is not None else ()):
        sums: dict[str, int] = {}
        for entry in snapshot.statement.entries:
            sums[entry.family] = sums.get(entry.family, 0) + entry.resident_bytes
        found = {name: max(found.get(name, 0), sums.get(name, 0)) for name in {*found, *sums}}
    return found


# ---- whether two runs are the same training --------------------------------------------------


def _why_not_comparable(run: Run, other: Run) -> str:
    """'' where the two differ in their remedies only."""
    if not any(event.is_applied for event in run.remedies):
        return "no remedy did anything in this run"
    if _command(run) != _command(other):
        return f"it ran another command, {' '.join(_command(other))}"
    both = {event.name for event in other.remedies if event.is_applied}
    if both:
        return f"remedies were in force there, too: {', '.join(sorted(both))}"
    ended = ending_of(other)
    if not ended.is_ordinary or ended.exit_code:
        return f"it {ended.text}"
    workers, others = _workers(run), _workers(other)
    if workers != others:
        return f"it had {others} worker processes, this run {workers}"
    done, before = _iterations(run), _iterations(other)
    if min(done, before) < _FEWER * max(done, before):
        return f"it made {before:,} iterations, this run {done:,}"
    return ""


def _command(run: Run) -> tuple[str, ...]:
    """Without the place of the interpreter."""
    program, *arguments = run.header.command or ("",)
    return os.path.basename(program), *arguments


def _workers(run: Run) -> int:
    rows = {row.pid: row for row in (*run.processes.ended, *run.processes.rows.values())}
    return sum(row.is_worker for row in rows.values())


def _iterations(run: Run) -> int:
    rows = run.iterations.of(run.main_pid)
    return rows[-1].generation - rows[0].generation + 1 if rows else 0
