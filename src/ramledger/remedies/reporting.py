"""What a remedy did, sent to the recorder; said once for each kind of thing."""

import os
import time

from ramledger.agent import observer
from ramledger.events import RemedyEvent

_MOST = 20  # sentences of one remedy in one process


class Report:
    """The voice of one remedy."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._said: set[str] = set()

    def applied(self, text: str, saves_bytes: int = 0) -> None:
        self._say(text, True, saves_bytes)

    def left(self, text: str) -> None:
        """Something was left as it is."""
        self._say(text, False, 0)

    def _say(self, text: str, is_applied: bool, saves_bytes: int) -> None:
        if text in self._said or len(self._said) >= _MOST:
            return
        self._said.add(text)
        if observer.OBSERVER is not None:
            observer.OBSERVER.tell(
                RemedyEvent(
                    t=time.monotonic(), pid=os.getpid(), name=self.name, text=text,
                    is_applied=is_applied, saves_bytes=saves_bytes,
                )
            )  # fmt: skip


def not_applied(report: Report, error: Exception) -> None:
    """It failed, and everything is as it was."""
    report.left(f"not applied: {type(error).__name__}: {error}"[:300])
