"""What a paced program calls while it is recorded: it says how long to sleep, so that a phase lasts.

The sleep itself is in the program's own functions, as the work of a slower program would be.
"""

import os
import time
from dataclasses import dataclass

# shorter sleeps than this are saved up
_LEAST_SECONDS = 0.004


@dataclass
class _Pass:
    """One pass of a phase: its end, and how many steps are expected until then."""

    began: float
    expected: int
    steps: int = 0


_seconds = float(os.environ.get("CORPUS_PHASE_SECONDS", "0"))
_steps_before: dict[str, int] = {}
_running: list[tuple[str, _Pass]] = []


def begin(phase: str) -> None:
    """A phase begins."""
    _running.append((phase, _Pass(time.monotonic(), _steps_before.get(phase, 4))))


def after_step() -> float:
    """Seconds to sleep after a part of the phase, so that its parts are spread over its time."""
    if not _running:  # in another process, or outside of every phase
        return 0.0
    this = _running[-1][1]
    this.steps += 1
    share = min(1.0, this.steps / this.expected)
    left = this.began + share * _seconds - time.monotonic()
    return left if left > _LEAST_SECONDS else 0.0


def end() -> float:
    """A phase ends: seconds to sleep until it has lasted long enough."""
    phase, this = _running.pop()
    _steps_before[phase] = max(1, this.steps)
    return max(0.0, this.began + _seconds - time.monotonic())


os.register_at_fork(after_in_child=_running.clear)
