"""What a callback holds for its training: a recording, numbers for charts, a limit, the verdict.

Under `ramledger run` there is a recording already: the callback joins it, and the verdict comes
from there. A process is recorded once: later trainings in it, with callbacks of their own, continue
in that file.
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

from ramledger.diagnose.finding import Cause, Diagnosis
from ramledger.diagnose.verdict import diagnose
from ramledger.errors import RamledgerError
from ramledger.integrations.chart_scalars import ScalarSource
from ramledger.process_session import ProcessSession
from ramledger.recording import SUFFIX, RecordingWriter
from ramledger.run.model import Run

_SETTLE_SECONDS = 0.3
# all of a callback is to stay below 2 % of the training's CPU
_EVERY_SECONDS = 1.0
_YOUNG_SECONDS = 6.0  # short trainings are judged by time: a sample takes half a millisecond
_SHARE = 0.1  # of sampling the call stack: the framework marks its phases itself
_BUDGET = 0.007
_CREDIT_SECONDS = 0.02  # a snapshot with torch takes 0.15 s: short trainings have one if they grow
_RSS_SECONDS = 0.05  # between two readings of RSS, which take some 15 µs

Say = Callable[[str], None]

_opened: dict[str, Any] = {}  # the recording of this process: pid, path, writer
_awaited: set[int] = set()  # sessions with a training that began after the last verdict


class TrainingSession:
    """One callback's trainings in this process. Nothing of it travels to another process.

    The recording is kept in `recording`, else in a temporary file until the process ends.
    `max_bytes`: what RSS may reach. `every_seconds`: between two statements for charts.
    """

    def __init__(
        self,
        recording: str | None = None,
        max_bytes: int | None = None,
        every_seconds: float = 10.0,
    ) -> None:
        self._recording = recording
        self._max_bytes = max_bytes
        self._source = ScalarSource(every_seconds)
        self._process: ProcessSession | None = None
        self._say: Say = print
        self.path = ""  # '' where nobody can write, or somebody else does
        self.next_check_at = float("inf")  # of time.monotonic: when to ask `exceeded_bytes`

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._recording, self._max_bytes, self._source.every_seconds)

    def begin(self, say: Say, checkpoint: Callable[[], None] | None = None) -> None:
        """A training begins: one verdict is due at its end, whoever asks for it first.

        `checkpoint`, a method, is called when memory runs out, for as long as its object lives.
        """
        self._say = say
        if self._process is None:
            self._process = ProcessSession()
            ledger = self._process.ledger
            if checkpoint is not None:
                ledger.on_pressure(_while_it_lives(checkpoint))
            self._open(self._process)
        if self._max_bytes is not None:
            self.next_check_at = 0.0
        _awaited.add(id(self))

    @property
    def has_begun(self) -> bool:
        """Whether a training has begun in this process."""
        return self._process is not None

    def generation(self, number: int) -> None:
        """Iteration `number` begins."""
        if self._process is not None:
            self._process.ledger.generation(number)

    def scalars(self, **roots: Any) -> dict[str, float]:
        """`memory/…` in MiB, for charts; see ScalarSource."""
        return self._source.read(**roots)

    def exceeded_bytes(self) -> int | None:
        """RSS where it is above the limit, else None; read at most every so often."""
        now = time.monotonic()
        if self._max_bytes is None or self._process is None or now < self.next_check_at:
            return None
        self.next_check_at = now + _RSS_SECONDS
        used = self._process.rss_bytes()
        return used if used > self._max_bytes else None

    def diagnose(self) -> Diagnosis | None:
        """The verdict so far; None where the recording is not ours, or it was given already.

        A leak without a known cause gets one more snapshot.
        """
        process = self._process
        if not self.path or process is None or id(self) not in _awaited:
            return None
        _awaited.clear()
        found = self._judged(process)
        if found is not None and any(leak.cause is Cause.UNKNOWN for leak in found.leaks):
            process.record_snapshot()
            found = self._judged(process)
        writer: RecordingWriter = _opened["writer"]
        if writer.trouble:
            self._say(f"the recording is incomplete: {writer.trouble}")
        return found

    def _open(self, process: ProcessSession) -> None:
        path = self._recording
        if not process.is_recorded:
            self.path = path or _temporary(self._say)
            if self.path:
                self._start(process)
        elif _opened.get("pid") == os.getpid():
            self.path = _opened["path"]
            if path is not None and os.path.realpath(path) != os.path.realpath(self.path):
                self._say(f"this process is recorded already: nothing is written to {path}")

    def _start(self, process: ProcessSession) -> None:
        is_kept = self._recording is not None
        _opened["writer"] = process.start_recording(
            self.path,
            on_limit=True,
            force=not is_kept,
            every_seconds=_EVERY_SECONDS,
            young_seconds=_YOUNG_SECONDS,
            share=_SHARE,
            budget=_BUDGET,
            credit=_CREDIT_SECONDS,
            last_snapshot=is_kept,  # a temporary file is gone before anybody reads it
        )
        _opened.update(pid=os.getpid(), path=self.path)

    def _judged(self, process: ProcessSession) -> Diagnosis | None:
        process.send_events()
        time.sleep(_SETTLE_SECONDS)  # the recorder's thread writes what was sent
        with suppress(RamledgerError):
            return diagnose(Run.read(self.path))
        return None


def save_model(model: Any, path: str) -> bool:
    """Whether it is saved. A failure is only a warning: the training may end in order."""
    try:
        model.save(path)
    except Exception as error:
        warnings.warn(f"the model was not saved to {path}: {error}", RuntimeWarning, stacklevel=3)
        return False
    return True


def verdict_line(diagnosis: Diagnosis) -> str:
    """`leak: train.py:80 adds to …`: the verdict and its reason, once."""
    reason = diagnosis.reason.removeprefix(f"{diagnosis.verdict}: ")
    return f"{diagnosis.verdict}: {reason}"


def _while_it_lives(method: Callable[[], None]) -> Callable[[], None]:
    weak = weakref.WeakMethod(method)

    def call() -> None:
        living = weak()
        if living is not None:
            living()

    return call


def _temporary(say: Say) -> str:
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
