"""`model.fit(…, callbacks=[MemoryCallback()])`: memory in Keras's logs, an epoch an iteration.

History, TensorBoard, CSVLogger and whatever comes after it in the list get `memory/…` in MiB; when
the verdict changes, it prints the new one. Under `ramledger run` it joins that recording.
"""

import time
from collections.abc import Sequence
from typing import Any

import ramledger
from ramledger.diagnose.finding import Diagnosis, Verdict
from ramledger.errors import ConfigError
from ramledger.integrations.chart_scalars import NAMES
from ramledger.integrations.requirement import needs
from ramledger.integrations.training_session import TrainingSession, save_model, verdict_line
from ramledger.ledger import printable
from ramledger.units import format_bytes, parse_bytes

with needs("keras", "3.0", extra="keras"):
    # Keras 3 is not importable without a backend either
    from keras.callbacks import Callback

_REST = 30  # a verdict, then so many times as long without one
_rest = {"until": 0.0}  # of time.monotonic; for all callbacks of the process


class MemoryCallback(Callback):
    """Logs where the memory is, stops at `max_rss`, and judges the run.

    `save_path` gets the model before it stops, and when the machine or the container runs out of
    memory; `recording` keeps the recording. Of `memory/…`, `groups` are logged, and so printed.
    `apply` as in `ramledger.apply`.
    One callback may serve many calls of `fit`: their epochs are counted on.
    """

    def __init__(
        self,
        *,
        max_rss: str | int | None = None,
        save_path: str | None = None,
        recording: str | None = None,
        every_seconds: float = 10.0,
        apply: str = "",
        groups: Sequence[str] = NAMES,
        verbose: int = 1,
    ) -> None:
        super().__init__()
        self.max_bytes = None if max_rss is None else parse_bytes(max_rss)
        self.save_path = save_path
        self.recording = recording
        self.verbose = verbose
        self.diagnosis: Diagnosis | None = None
        self.stopped_at_bytes: int | None = None
        self.epochs = 0
        self._is_training = False
        if unknown := set(groups) - set(NAMES):
            raise ConfigError(f"no group {sorted(unknown)[0]!r}", hint=f"one of {', '.join(NAMES)}")
        self._logged = tuple(f"memory/{name}" for name in groups)
        self._session = TrainingSession(recording, self.max_bytes, every_seconds)
        if apply:
            ramledger.apply(apply, say=self._say)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_model": None}

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """A call of `fit` begins."""
        self.stopped_at_bytes = None
        self._session.begin(self._say, self.checkpoint if self.save_path is not None else None)
        self._is_training = True

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """The next generation, over all calls of `fit`."""
        self._session.generation(self.epochs)

    # not at the end: Keras waits for the results of every batch where a callback is called there
    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Stop above `max_rss`."""
        session = self._session
        if time.monotonic() < session.next_check_at or self.stopped_at_bytes is not None:
            return
        used = session.exceeded_bytes()
        if used is None or self.max_bytes is None:
            return
        self.stopped_at_bytes = used
        self.checkpoint()
        self._say(f"RSS {format_bytes(used)} is above {format_bytes(self.max_bytes)}: stopping")
        self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """The logs of this epoch get the last statement's numbers."""
        self.epochs += 1
        if logs is not None and self._session.has_begun:
            found = self._session.scalars(model=self.model)
            logs.update((name, found[name]) for name in self._logged if name in found)

    def checkpoint(self) -> None:
        """Save the model that is learning to `save_path`."""
        if not self._is_training or self.save_path is None:
            return
        if save_model(self.model, self.save_path):
            self._say(f"memory runs out: saved {self.save_path}")

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """The verdict, where it is another one than before."""
        self._is_training = False
        began = time.monotonic()
        if began < _rest["until"]:
            return
        found = self._session.diagnose()
        if found is None:
            return
        before, self.diagnosis = self.diagnosis, found
        now = time.monotonic()
        _rest["until"] = now + (now - began) * _REST
        if _is_news(found, before):
            self._say(verdict_line(found))

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"ramledger: {printable(text)}")


def _is_news(now: Diagnosis, before: Diagnosis | None) -> bool:
    if before is None:
        return now.verdict is not Verdict.UNDECIDED or now.generations > 1
    return now.verdict is not before.verdict
