"""What `run --apply` changed: what was promised, and what an earlier run without it shows."""

from dataclasses import dataclass
from typing import Any

from ramledger.run.model import Run
from ramledger.units import format_bytes

_NO_DIFFERENCE = 0.02


@dataclass(frozen=True, slots=True)
class Pace:
    """Iterations a second, over all but the first of them."""

    per_second: float | None

    @classmethod
    def of(cls, run: Run) -> "Pace":
        rows = run.iterations.of(run.main_pid)
        if len(rows) < 3 or rows[-1].t <= rows[0].t:
            return cls(None)
        done = rows[-1].generation - rows[0].generation
        return cls(done / (rows[-1].t - rows[0].t))


def remedy_lines(run: Run, against: Run | None = None) -> list[str]:
    """Sentences for the end of a run; none where nothing was to be applied."""
    lines = [
        f"{event.name}: {event.text}" if event.is_applied else f"{event.name}, no: {event.text}"
        for event in run.remedies
    ]
    if against is not None:
        lines += _compared(run, against)
    return lines


def remedies_document(run: Run, against: Run | None = None) -> dict[str, Any] | None:
    """The same for `--json`."""
    if not run.remedies and against is None:
        return None
    document: dict[str, Any] = {
        "applied": [
            {"name": event.name, "text": event.text, "saves_bytes": event.saves_bytes}
            for event in run.remedies
            if event.is_applied
        ],
        "left": [
            {"name": event.name, "text": event.text}
            for event in run.remedies
            if not event.is_applied
        ],
    }
    if against is not None:
        document["against"] = {
            "recording": against.path,
            "peak_bytes": against.peak_bytes,
            "saved_bytes": against.peak_bytes - run.peak_bytes,
            "iterations_per_second": [Pace.of(against).per_second, Pace.of(run).per_second],
        }
    return document


def _compared(run: Run, against: Run) -> list[str]:
    before, after = against.peak_bytes, run.peak_bytes
    if not before:
        return []
    share = after / before - 1
    if abs(share) < _NO_DIFFERENCE:
        lines = [f"measured: no saving, the peak is {format_bytes(after)} as before"]
    else:
        change = f"{abs(share):.0%} {'less' if share < 0 else 'more'}"
        lines = [f"measured: peak {format_bytes(before)} → {format_bytes(after)}, {change}"]
    old, new = Pace.of(against).per_second, Pace.of(run).per_second
    if old and new:
        lines.append(f"measured: {old:.3g} → {new:.3g} iterations a second ({new / old - 1:+.0%})")
    return lines
