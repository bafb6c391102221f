"""`model.learn(…, callback=MemoryCallback())`: memory in Stable-Baselines3's own logger.

Its writers (TensorBoard, CSV, stdout, W&B's sync) get `memory/…` in MiB; at the end comes the
verdict. Under `ramledger run` it joins that recording.
"""

import atexit
import os
import tempfile
import time
from contextlib import suppress
from typing import Any

import ramledger
from ramledger.account import watching
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.judge import diagnose
from ramledger.errors import ConfigError
from ramledger.inside.meter import Meter
from ramledger.ledger import Statement
from ramledger.recording import SUFFIX, Recording
from ramledger.units import MIB, format_bytes, parse_bytes

try:
    from stable_baselines3.common.callbacks import BaseCallback
except ModuleNotFoundError as error:
    raise ConfigError(
        "stable-baselines3 is not installed", hint="pip install 'ramledger[sb3]'"
    ) from error

# what a chart shows: the first part of an account's name
_GROUPS = (
    *("replay", "rollout", "networks", "gradients", "optimizer", "env", "variables", "arrays"),
    *("imports", "libraries", "python", "native", "allocator"),
)
_SETTLE_SECONDS = 0.3
_REST = 60  # a statement, then so many times as long without one


class MemoryCallback(BaseCallback):
    """Logs where the memory is, stops at `max_rss`, and judges the run at its end.

    `save_path` gets the model before it stops; `recording` keeps the recording.
    """

    def __init__(
        self,
        *,
        max_rss: str | int | None = None,
        save_path: str | None = None,
        recording: str | None = None,
        every_seconds: float = 10.0,
        verbose: int = 1,
    ) -> None:
        super().__init__(verbose)
        self.max_bytes = parse_bytes(max_rss) if isinstance(max_rss, str) else max_rss
        self.save_path = save_path
        self.recording = recording
        self.every_seconds = every_seconds
        self.diagnosis: Diagnosis | None = None
        self.stopped_at_bytes: int | None = None
        self._written = ""
        self._next_statement = 0.0
        self._latest: dict[str, int] = {}
        self._ledger: Any = None
        self._meter: Meter | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_ledger": None, "_meter": None, "model": None}

    def _on_training_start(self) -> None:
        self._meter = Meter()
        if self._ledger is None:
            if watching.WATCHING is None:
                self._written = self.recording or _temporary()
                self._ledger = ramledger.record(self._written, force=self.recording is None)
            else:
                self._ledger = ramledger.record()
        self._log()

    def _on_step(self) -> bool:
        assert self._meter is not None
        if self.max_bytes is None:
            return True
        used = self._meter.rss_bytes()
        if used <= self.max_bytes:
            return True
        self.stopped_at_bytes = used
        if self.save_path is not None:
            self.model.save(self.save_path)
        self._say(f"RSS {format_bytes(used)} is above {format_bytes(self.max_bytes)}: stopping")
        return False

    def _on_rollout_end(self) -> None:
        self._log()

    def _on_training_end(self) -> None:
        if not self._written:
            return
        with suppress(ramledger.RamledgerError):
            watching_now = watching.WATCHING
            if watching_now is not None:
                watching_now.link.flush()
            time.sleep(_SETTLE_SECONDS)  # the recorder's thread writes what was sent
            self.diagnosis = diagnose(Recording.read(self._written))
            self._say(f"{self.diagnosis.verdict}: {self.diagnosis.reason}")

    def _log(self) -> None:
        """SB3 forgets values when it writes them: every row gets the last statement's."""
        began = time.monotonic()
        if began >= self._next_statement:
            self._latest = scalars(self._ledger.snapshot(objects=False))
            now = time.monotonic()
            self._next_statement = now + max(self.every_seconds, (now - began) * _REST)
        for name, size_bytes in self._latest.items():
            self.logger.record(f"memory/{name}", round(size_bytes / MIB, 2))

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"ramledger: {text}")


def scalars(statement: Statement) -> dict[str, int]:
    """What a chart shows of a statement, in bytes; the groups and `other` sum to RSS."""
    found = dict.fromkeys(_GROUPS, 0)
    other = 0
    for entry in statement.entries:
        group = entry.account.partition("/")[0]
        if group in found:
            found[group] += entry.resident_bytes
        else:
            other += entry.resident_bytes
    return {
        "rss": statement.rss_bytes,
        **found,
        "other": other,
        "unexplained": statement.unexplained_bytes,
    }


def _temporary() -> str:
    handle, path = tempfile.mkstemp(SUFFIX, "memory-callback-")
    os.close(handle)
    atexit.register(os.unlink, path)  # before the recorder's own: that one writes the end first
    return path
