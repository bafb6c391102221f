"""The recording that a callback opens for its training, and the verdict on it.

Under `ramledger run` there is one already: the callback joins it, and the verdict comes from there.
"""

import atexit
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ramledger
from ramledger.account import watching
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.judge import diagnose
from ramledger.inside.meter import Meter
from ramledger.recording import SUFFIX, Recording

_SETTLE_SECONDS = 0.3
# all of a callback is to stay below 2 % of the training's CPU: half of what `run` may take
_EVERY_SECONDS = 1.0
_BUDGET = 0.005
_RSS_SECONDS = 0.02  # between two readings of RSS, which take some 15 µs


class RssLimit:
    """Whether the process is above its limit, asked in every step."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        self._meter = Meter()
        self._next = 0.0

    def exceeded_bytes(self) -> int | None:
        """RSS where it is above the limit, else None; read at most every so often."""
        now = time.monotonic()
        if self._limit_bytes is None or now < self._next:
            return None
        self._next = now + _RSS_SECONDS
        used = self._meter.rss_bytes()
        return used if used > self._limit_bytes else None


class OwnRecording:
    """Of this process: kept in `path`, else in a temporary file until it ends."""

    def __init__(self, path: str | None, say: Callable[[str], None]) -> None:
        self.path = ""  # where this one writes; '' where another one does, or nobody can
        if watching.WATCHING is None:
            self.path = path or _temporary(say)
        self.ledger: Any = ramledger.record(
            self.path or None,
            force=path is None,
            every_seconds=_EVERY_SECONDS,
            budget=_BUDGET,
        )

    def diagnose(self) -> Diagnosis | None:
        """The verdict so far; None where the recording is not ours."""
        if not self.path:
            return None
        with suppress(ramledger.RamledgerError):
            watching_now = watching.WATCHING
            if watching_now is not None:
                watching_now.link.flush()
            time.sleep(_SETTLE_SECONDS)  # the recorder's thread writes what was sent
            return diagnose(Recording.read(self.path))
        return None


def verdict_line(diagnosis: Diagnosis) -> str:
    """`leak: 1.9 MiB a generation …`: the verdict and its reason, once."""
    reason = diagnosis.reason.removeprefix(f"{diagnosis.verdict}: ")
    return f"{diagnosis.verdict}: {reason}"


def _temporary(say: Callable[[str], None]) -> str:
    try:
        handle, path = tempfile.mkstemp(SUFFIX, "memory-callback-")
    except OSError as error:
        say(f"cannot write a temporary file ({error.strerror}): there is no verdict")
        return ""
    os.close(handle)
    atexit.register(_remove, path)  # before the recorder's own: that one writes the end first
    return path


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
