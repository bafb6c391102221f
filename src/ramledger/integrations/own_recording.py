"""The recording that a callback opens for its training, and the verdict on it.

Under `ramledger run` there is one already: the callback joins it, and the verdict comes from there.
A process is recorded once: later trainings in it, with callbacks of their own, go on in that file.
"""

import atexit
import os
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ramledger
from ramledger.agent import observer
from ramledger.agent.pressure_callbacks import on_pressure
from ramledger.api import record_ourselves
from ramledger.diagnose.finding import Cause, Diagnosis
from ramledger.diagnose.verdict import diagnose
from ramledger.measure.limits import tightest
from ramledger.measure.own_memory import Meter
from ramledger.phases.phase_log import PHASES
from ramledger.recorder.limit_guard import PressureGuard
from ramledger.recording import SUFFIX, RecordingWriter
from ramledger.run.model import Run

_SETTLE_SECONDS = 0.3
# all of a callback is to stay below 2 % of the training's CPU
_EVERY_SECONDS = 1.0
_YOUNG_SECONDS = 6.0  # short trainings are judged by time: a sample takes half a millisecond
_SHARE = 0.1  # the framework tells its phases
_BUDGET = 0.007
_CREDIT_SECONDS = 0.02  # a look with torch takes 0.15 s: short trainings have one only if they grow
_LOOK_GROWTH = 1.04  # what grows so far after its first seconds is looked into all the same
_RSS_SECONDS = 0.05  # between two readings of RSS, which take some 15 µs

_opened: dict[str, Any] = {}  # the recording of this process: pid, path, writer
_awaited: set[int] = set()  # whose trainings have begun since the last verdict


class RssLimit:
    """Whether the process is above its limit; asked in every step, when `next_at` is over."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        self._meter = Meter()
        self.next_at = 0.0 if limit_bytes is not None else float("inf")

    def exceeded_bytes(self) -> int | None:
        """RSS where it is above the limit, else None; read at most every so often."""
        now = time.monotonic()
        if self._limit_bytes is None or now < self.next_at:
            return None
        self.next_at = now + _RSS_SECONDS
        used = self._meter.rss_bytes()
        return used if used > self._limit_bytes else None


class OwnRecording:
    """Of this process: kept in `path`, else in a temporary file until it ends.

    `checkpoint`, a method, is called when memory runs out, for as long as its object lives.
    """

    def __init__(
        self,
        path: str | None,
        say: Callable[[str], None],
        checkpoint: Callable[[], None] | None = None,
    ) -> None:
        self.path = ""  # '' where nobody can write, or somebody else does
        self._say = say
        self.ledger: Any = ramledger.record()
        if checkpoint is not None:
            on_pressure(_while_it_lives(checkpoint))
        if observer.WATCHING is None:
            self.path = path or _temporary(say)
            if self.path:
                self._start(path)
        elif _opened.get("pid") == os.getpid():
            self.path = _opened["path"]
            if path is not None and os.path.realpath(path) != os.path.realpath(self.path):
                say(f"this process is recorded already: nothing is written to {path}")

    def _start(self, path: str | None) -> None:
        limit = tightest(os.getpid())
        _opened["writer"] = record_ourselves(
            self.path,
            force=path is None,
            every_seconds=_EVERY_SECONDS,
            young_seconds=_YOUNG_SECONDS,
            share=_SHARE,
            budget=_BUDGET,
            credit=_CREDIT_SECONDS,
            look_growth=_LOOK_GROWTH,
            guard=PressureGuard(limit, "checkpoint") if limit is not None else None,
            last_look=path is not None,  # a temporary file is gone before anybody reads it
        )
        _opened.update(pid=os.getpid(), path=self.path)

    def begin(self) -> None:
        """A training begins: one verdict is due at its end, whoever asks for it first."""
        _awaited.add(id(self))

    def diagnose(self) -> Diagnosis | None:
        """The verdict so far; None where the recording is not ours, or another one told it.

        A leak whose cause the looks so far do not tell is looked into once more.
        """
        watched = observer.WATCHING
        if not self.path or watched is None or id(self) not in _awaited:
            return None
        _awaited.clear()
        found = self._judged(watched)
        if found is not None and any(leak.cause is Cause.UNKNOWN for leak in found.leaks):
            phase, generation = PHASES.now
            watched.look_deep(generation=generation, phase=phase)
            found = self._judged(watched)
        writer: RecordingWriter = _opened["writer"]
        if writer.trouble:
            self._say(f"the recording is not whole: {writer.trouble}")
        return found

    def _judged(self, watched: observer.Watching) -> Diagnosis | None:
        watched.link.flush()
        time.sleep(_SETTLE_SECONDS)  # the recorder's thread writes what was sent
        with suppress(ramledger.RamledgerError):
            return diagnose(Run.read(self.path))
        return None


def save_model(model: Any, path: str) -> bool:
    """Whether it is saved. What fails is only warned of: the training may end in order."""
    try:
        model.save(path)
    except Exception as error:
        warnings.warn(f"the model was not saved to {path}: {error}", RuntimeWarning, stacklevel=3)
        return False
    return True


def _while_it_lives(method: Callable[[], None]) -> Callable[[], None]:
    weak = weakref.WeakMethod(method)

    def call() -> None:
        living = weak()
        if living is not None:
            living()

    return call


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
    # before the recorder's own: that one writes the end first
    atexit.register(_remove, path, os.getpid())
    return path


def _remove(path: str, pid: int) -> None:
    if os.getpid() == pid:  # not a forked child, which ends through its parent's exit handlers
        with suppress(OSError):
            os.unlink(path)
