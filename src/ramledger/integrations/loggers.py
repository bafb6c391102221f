"""`MemoryLogger().log(step)`: memory to whatever logger the program has open.

W&B and MLflow are used if the program has imported them, and never imported; a TensorBoard writer
is passed in, since a program may have several.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import ramledger
from ramledger.errors import ConfigError
from ramledger.integrations.chart_scalars import ScalarSource


class MemoryLogger:
    """Sends `memory/…` in MiB to the run of W&B, the run of MLflow and the writers given."""

    def __init__(self, *writers: Any, every_seconds: float = 10.0) -> None:
        for writer in writers:
            if not hasattr(writer, "add_scalar"):
                raise ConfigError(
                    f"{type(writer).__name__} has no add_scalar",
                    hint="give it a SummaryWriter; W&B and MLflow are found by themselves",
                )
        self._writers = writers
        self._source = ScalarSource(every_seconds)
        self._sent: Mapping[str, float] | None = None
        ramledger.record()  # what the program imports from here on is measured

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_writers": (), "_sent": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        ramledger.record()

    def log(self, step: int) -> list[str]:
        """Send what is new since the last call; who got it."""
        if time.monotonic() < self._source.next_at:
            return []
        found = self._source.read()
        if found is self._sent:
            return []
        self._sent = found
        reached = [name for name, send in (("wandb", _to_wandb), ("mlflow", _to_mlflow))
                   if send(found, step)]  # fmt: skip
        for writer in self._writers:
            for name, value in found.items():
                writer.add_scalar(name, value, step)
        return reached + ["tensorboard"] * bool(self._writers)


def _to_wandb(found: Mapping[str, float], step: int) -> bool:
    run = getattr(sys.modules.get("wandb"), "run", None)
    if run is None:
        return False
    with suppress(Exception):  # a logger's trouble must not end the training
        # without `step`: W&B drops rows of steps that it has already seen
        run.log({**found, "memory/step": step})
        return True
    return False


def _to_mlflow(found: Mapping[str, float], step: int) -> bool:
    mlflow: Any = sys.modules.get("mlflow")
    if mlflow is None:
        return False
    with suppress(Exception):
        if mlflow.active_run() is None:
            return False
        mlflow.log_metrics(dict(found), step=step)
        return True
    return False
