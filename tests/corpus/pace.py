"""What a paced program asks while it is recorded: how long to sleep, so that its phases last.

The sleep itself is in the program's own functions, as the work of a slower program would be.
"""

import os
import time
from dataclasses import dataclass

# shorter sleeps than this are saved up
_LEAST_SECONDS = 0.004
_LOOKS = 60


@dataclass
class _Pass:
    """One pass of a phase: how many steps are expected in it, and how many were made."""

    began: float
    expected: int
    steps: int = 0

    def left(self) -> float:
        """Seconds that it is ahead of its time."""
        share = min(1.0, self.steps / self.expected)
        return self.began + share * _seconds - time.monotonic()


_seconds = float(os.environ.get("CORPUS_PHASE_SECONDS", "0"))
_steps_before: dict[str, int] = {}
_running: list[tuple[str, _Pass]] = []


def begin(phase: str) -> None:
    """A phase begins."""
    _running.append((phase, _Pass(time.monotonic(), _steps_before.get(phase, 4))))


def is_early() -> bool:
    """After a part of a phase: whether to sleep, so that its parts are spread over its time."""
    if not _running:  # in another process, or outside of every phase
        return False
    this = _running[-1][1]
    this.steps += 1
    if this.steps < this.expected and this.steps % (this.expected // _LOOKS + 1):
        return False  # a loop of many turns looks at the clock now and then only
    return this.left() > _LEAST_SECONDS


def left() -> float:
    """Seconds to sleep."""
    return max(0.0, _running[-1][1].left()) if _running else 0.0


def end() -> float:
    """A phase ends: seconds to sleep until it has lasted long enough."""
    phase, this = _running.pop()
    _steps_before[phase] = max(1, this.steps)
    return max(0.0, this.began + _seconds - time.monotonic())


os.register_at_fork(after_in_child=_running.clear)
