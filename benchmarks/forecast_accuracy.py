"""How good forecasts are: whole runs cut early, what is forecast there, and the peak in truth.

    python -m benchmarks.forecast_accuracy RECORDING… [--share 0.15] [--told]

A recording is cut where a rehearsal would have ended. With `--told` the number of iterations is
given, as `--iterations` does, where the program itself had not said it by then.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ramledger.diagnose.verdict import diagnose
from ramledger.event_parts import RunSettings
from ramledger.events import GenerationEvent, RunEndEvent
from ramledger.recording import Recording
from ramledger.run.model import Run
from ramledger.units import MIB

WITHIN, UNDER = 0.10, -0.15


@dataclass(frozen=True, slots=True)
class Forecast:
    """One recording: what was forecast after a part of it, and what came."""

    name: str
    seconds: float  # of the whole
    iterations: int  # seen by then
    planned: int | None  # the last one, where it was known
    true_iterations: int
    peak_bytes: int
    low_bytes: int
    high_bytes: int
    true_bytes: int

    @property
    def error(self) -> float:
        return self.peak_bytes / self.true_bytes - 1 if self.peak_bytes else float("nan")

    @property
    def holds_truth(self) -> bool:
        return self.low_bytes <= self.true_bytes <= self.high_bytes


def forecast_early(path: str, share: float = 0.15, *, told: bool = False) -> Forecast:
    """What a rehearsal of that share of the run would have said."""
    recording = Recording.read(path)
    whole = Run.from_recording(recording)
    ends = [event.t for event in recording.events if isinstance(event, RunEndEvent)]
    seconds = ends[0] if ends else whole.now_seconds
    cut = tuple(
        event
        for event in recording.events
        if event.t <= share * seconds and not isinstance(event, RunEndEvent)
    )
    last = _last_iteration(whole)
    early = Run.from_recording(replace(recording, events=cut))
    if told and early.planned.last_iteration is None and last is not None:
        settings = recording.header.settings or RunSettings()
        header = replace(recording.header, settings=replace(settings, iterations=last + 1))
        early = Run.from_recording(replace(recording, header=header, events=cut))
    found = diagnose(early).outlook
    low, high = found.interval_bytes if found is not None else (0, 0)
    return Forecast(
        Path(path).name.partition(".")[0],
        seconds,
        len(early.iterations.of(early.main_pid)),
        early.planned.last_iteration,
        0 if last is None else last + 1,
        found.peak_bytes if found is not None else 0,
        low,
        high,
        whole.peak_bytes,
    )


def _last_iteration(run: Run) -> int | None:
    numbers = [e.generation for e in run.of_type(GenerationEvent) if e.pid == run.main_pid]
    return max(numbers, default=None)


def table(found: Sequence[Forecast]) -> str:
    """One line each, and the three counts that the numbers of the plan are held to."""
    head = (
        f"{'program':28} {'s':>5} {'seen':>6} {'planned':>8} {'in all':>8} "
        f"{'forecast':>9} {'low':>7} {'high':>8} {'truth':>7} {'error':>7}"
    )
    lines = [head]
    for one in found:
        sizes = (one.peak_bytes, one.low_bytes, one.high_bytes, one.true_bytes)
        forecast, low, high, true = (f"{size / MIB:.0f}" for size in sizes)
        planned = "?" if one.planned is None else str(one.planned + 1)
        lines.append(
            f"{one.name:28} {one.seconds:5.0f} {one.iterations:6} {planned:>8} "
            f"{one.true_iterations:8} {forecast:>9} {low:>7} {high:>8} {true:>7} "
            f"{100 * one.error:+6.1f}%{'' if one.holds_truth else '  outside'}"
        )
    within = sum(abs(one.error) <= WITHIN for one in found)
    under = sum(not one.error >= UNDER for one in found)
    held = sum(one.holds_truth for one in found)
    lines.append(
        f"within 10 %: {within} of {len(found)}; under by more than 15 %: {under}; "
        f"the interval holds the truth: {held}"
    )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recordings", nargs="+")
    parser.add_argument("--share", type=float, default=0.15)
    parser.add_argument("--told", action="store_true")
    options = parser.parse_args()
    rows = [forecast_early(path, options.share, told=options.told) for path in options.recordings]
    print(table(rows))


if __name__ == "__main__":
    main()
