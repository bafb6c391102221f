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
from ramledger.recording import SUFFIX, Recording

_SETTLE_SECONDS = 0.3


class OwnRecording:
    """Of this process: kept in `path`, else in a temporary file until it ends."""

    def __init__(self, path: str | None, say: Callable[[str], None]) -> None:
        self.path = ""  # where this one writes; '' where another one does, or nobody can
        if watching.WATCHING is None:
            self.path = path or _temporary(say)
        self.ledger: Any = ramledger.record(self.path or None, force=path is None)

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
