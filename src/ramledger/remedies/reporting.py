"""What a remedy did, sent to the recorder; said once for each kind of thing.

What is said before a recording begins is kept, and sent when it does.
"""

import os
import time
from collections import deque
from dataclasses import replace

from ramledger.agent import observer
from ramledger.events import RemedyEvent

_MOST = 20  # sentences of one remedy in one process
_unsent: deque[RemedyEvent] = deque(maxlen=100)


class Report:
    """The voice of one remedy."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.left_as_they_are: list[str] = []
        self._said: set[str] = set()

    def asked(self) -> None:
        """It is in force; what it does, if anything, is said when it does it."""
        self._say("", False, 0)

    def applied(self, text: str, saves_bytes: int = 0) -> None:
        self._say(text, True, saves_bytes)

    def left(self, text: str) -> None:
        """Something was left as it is."""
        self._say(text, False, 0)

    def _say(self, text: str, is_applied: bool, saves_bytes: int) -> None:
        if text in self._said or len(self._said) >= _MOST:
            return
        self._said.add(text)
        if text and not is_applied:
            self.left_as_they_are.append(text)
        _unsent.append(
            RemedyEvent(
                t=time.monotonic(), pid=os.getpid(), name=self.name, text=text,
                is_applied=is_applied, saves_bytes=saves_bytes,
            )
        )  # fmt: skip
        send_unsent()


def send_unsent() -> None:
    """Let the recording have what was said so far, if there is one."""
    while observer.OBSERVER is not None and _unsent:
        observer.OBSERVER.tell(replace(_unsent.popleft(), t=time.monotonic()))


def not_applied(report: Report, error: Exception) -> None:
    """It failed, and everything is as it was."""
    report.left(f"not applied: {type(error).__name__}: {error}"[:300])
