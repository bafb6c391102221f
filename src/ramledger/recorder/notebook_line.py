"""A line in a notebook while it records itself: one output of a cell that is renewed.

IPython is looked up, never imported: where it is not loaded, or has no front end, there is no line.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from ramledger.ledger import Limit, printable
from ramledger.recorder.tree_sampler import TreeSample
from ramledger.units import format_bytes, format_delta, format_duration

_EVERY_SECONDS = 2.0  # a message takes a millisecond or so


class NotebookLine:
    """Made in the cell that shows it; `show` is called by the recorder's thread."""

    def __init__(
        self, handle: Any, path: str, limit: Limit | None, iteration: Callable[[], int | None]
    ) -> None:
        self._handle = handle
        self._path, self._limit, self._iteration = path, limit, iteration
        self._first_bytes: int | None = None
        self._peak_bytes = 0
        self._due = 0.0

    def show(self, sample: TreeSample, t: float) -> None:
        """Renew the line, every so often; what fails here is no concern of the program."""
        self._peak_bytes = max(self._peak_bytes, sample.used_bytes)
        if self._first_bytes is None:
            self._first_bytes = sample.used_bytes
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _EVERY_SECONDS
        try:
            self._handle.update(shown(self._text(sample, t)), raw=True)
        except Exception:
            self._due = float("inf")  # a front end that is gone does not come back

    def _text(self, sample: TreeSample, t: float) -> str:
        used, first = sample.used_bytes, self._first_bytes or 0
        count, iteration = len(sample.processes), self._iteration()
        parts = [
            f"RAM {format_bytes(used)} ({format_delta(used - first)} since the start)",
            f"peak {format_bytes(self._peak_bytes)}",
            f"{count} processes" if count > 1 else "",
            f"iteration {iteration:,}" if iteration is not None else "",
            _limit_text(self._limit),
            format_duration(t),
            printable(self._path),
        ]
        return " · ".join(filter(None, parts))


def _limit_text(limit: Limit | None) -> str:
    return f"limit {format_bytes(limit.bytes)} ({printable(limit.source)})" if limit else ""


def notebook_line(
    path: str, limit: Limit | None, iteration: Callable[[], int | None]
) -> NotebookLine | None:
    """Shown at once in the cell that is running; None outside of a notebook."""
    try:
        shell = sys.modules["IPython"].get_ipython()
        if getattr(shell, "kernel", None) is None:  # in a terminal nothing can be renewed
            return None
        first = shown(f"recording into {printable(path)}")
        handle = sys.modules["IPython.display"].display(first, raw=True, display_id=True)
    except Exception:  # not loaded, or not as we know it
        return None
    return NotebookLine(handle, path, limit, iteration) if handle is not None else None


def shown(text: str) -> dict[str, str]:
    """A text as a front end takes it."""
    from ramledger.html_tables import display, lines

    return {"text/plain": f"ramledger: {text}", "text/html": display(lines([f"ramledger: {text}"]))}
