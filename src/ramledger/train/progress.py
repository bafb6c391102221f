"""What a run prints: a line a phase with its memory, a line a generation, a summary at the end."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from ramledger.ledger import printable
from ramledger.train.evaluation import Score
from ramledger.train.tensorboard_files import Scalars
from ramledger.train.trainer import Listener, Trainer
from ramledger.units import format_bytes, format_delta, format_duration

NEAR = 0.95  # of the budget: save and end
SHOWN = ("replay", "networks", "optimizer", "batch")


class ProgressPrinter(Listener):
    """Prints to `out`; stops the run at its budget, since it measures at every phase anyway."""

    def __init__(self, budget_bytes: int = 0, out: TextIO | None = None) -> None:
        self.budget_bytes = budget_bytes
        self.out = out
        self.scalars: Scalars | None = None
        self._seconds: dict[str, float] = {}
        self.peak_bytes = self.first_bytes = self._last_bytes = 0

    def say(self, text: str = "") -> None:
        if self.out is not None:
            lines = map(printable, text.split("\n"))
            print("\n".join(lines), file=self.out, flush=True)

    def begin(self, trainer: Trainer, phase: str) -> None:
        if not self.first_bytes:
            statement = trainer.ledger.snapshot(objects=False)
            self.first_bytes = self._last_bytes = self.peak_bytes = statement.rss_bytes
            self.say(f"start: {_accounts(statement)}")
        if phase == "evaluate":
            self.say(f"\ngeneration {trainer.generation + 1} of {trainer.config.generations}")

    def advance(self, trainer: Trainer, done: int, of: int) -> None:
        if self.out is not None and self.out.isatty():
            end = "" if done < of else "\r" + " " * 40 + "\r"
            print(f"\r  train     update {done} of {of}", end=end, file=self.out, flush=True)

    def end(self, trainer: Trainer, phase: str, seconds: float) -> None:
        # without a label: the ledger keeps labeled statements, and a long run would collect them
        statement = trainer.ledger.snapshot(objects=False)
        self._seconds[phase] = seconds
        rss = statement.rss_bytes
        change, self._last_bytes = rss - self._last_bytes, rss
        self.peak_bytes = max(self.peak_bytes, rss)
        self.say(
            f"  {phase:9} {format_duration(seconds):>6}  {_accounts(statement)}"
            f"  ({format_delta(change)})"
        )
        if self.budget_bytes and rss > NEAR * self.budget_bytes:
            trainer.stop("budget")

    def generation(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        fill = trainer.buffer.size / trainer.buffer.capacity
        if self.scalars is None:
            self.scalars = Scalars(trainer.folder / "tensorboard")
        self.scalars.add(
            int(row["generation"]),
            {
                "return/best": row["best"], "return/mean": row["mean"], "loss": row["loss"],
                "validation/leader": row["validation"],
                "validation/best": row["best_validation"],
                "memory/rss_bytes": self._last_bytes, "replay/fill": fill,
                **{f"seconds/{phase}": seconds for phase, seconds in self._seconds.items()},
            },
        )  # fmt: skip
        growth = format_delta(self._last_bytes - self.first_bytes)
        self.say(
            f"  return    best {row['best']:.2f}, mean {row['mean']:.2f}; validation "
            f"{row['validation']:.2f}, best so far {row['best_validation']:.2f}"
        )
        self.say(
            f"  memory    {growth} since the start; replay {fill:.0%} full, "
            f"{trainer.buffer.total_added:,} transitions so far"
        )

    def upload(self, trainer: Trainer, text: str) -> None:
        self.say(f"  upload    {text}")

    def summary(self, trainer: Trainer, reason: str) -> None:
        self.say(f"\n{reason} after {trainer.generation} generations")
        if trainer.history:
            self.say(f"  best agent  {trainer.best_score:.2f} on validation")
        else:
            self.say("  best agent  none yet: no generation was validated")
        self.say(f"  peak        {format_bytes(self.peak_bytes)} at the end of a phase")
        pause = f"{trainer.longest_pause_seconds:.2f} s"
        self.say(f"  checkpoint  {trainer.folder}; training waited {pause} for one at most")


def _accounts(statement: Any) -> str:
    parts = [f"RSS {format_bytes(statement.rss_bytes)}"]
    parts += [f"{name} {format_bytes(size)}" for name in SHOWN if (size := statement.total(name))]
    parts.append(f"unexplained {format_bytes(statement.unexplained_bytes)}")
    return " · ".join(parts)


def score_lines(scores: Sequence[Score]) -> list[str]:
    """The scores of all ways to act as a table."""
    lines = [f"{'':14} {'mean return':>12} {'deviation':>10} {'episodes':>9}"]
    lines += [f"{s.name:14} {s.mean:12.2f} {s.deviation:10.2f} {s.episodes:9}" for s in scores]
    return lines


def progress_printer(quiet: bool, budget_bytes: int, *, stderr: bool = False) -> ProgressPrinter:
    """One that prints to stdout, to stderr beside a JSON document, or nowhere."""
    return ProgressPrinter(budget_bytes, None if quiet else sys.stderr if stderr else sys.stdout)
