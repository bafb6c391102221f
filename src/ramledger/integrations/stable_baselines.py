"""`model.learn(…, callback=MemoryCallback())`: memory in Stable-Baselines3's own logger.

Its writers (TensorBoard, CSV, stdout, W&B's sync) get `memory/…` in MiB; at the end comes the
verdict. Under `ramledger run` it joins that recording.
"""

import time
from typing import Any

import ramledger
from ramledger.diagnose.finding import Diagnosis
from ramledger.integrations.requirement import needs
from ramledger.integrations.training_session import TrainingSession, save_model, verdict_line
from ramledger.ledger import printable
from ramledger.units import format_bytes, parse_bytes

with needs("stable_baselines3", "2.0", extra="sb3", name="stable-baselines3"):
    from stable_baselines3.common.callbacks import BaseCallback


class MemoryCallback(BaseCallback):
    """Logs where the memory is, stops at `max_rss`, and judges the run at its end.

    `save_path` gets the model before it stops, and when the machine or the container runs out of
    memory; `recording` keeps the recording. `apply` as in `ramledger.apply`: made before the model,
    it reaches the model's buffers.
    """

    def __init__(
        self,
        *,
        max_rss: str | int | None = None,
        save_path: str | None = None,
        recording: str | None = None,
        every_seconds: float = 10.0,
        apply: str = "",
        verbose: int = 1,
    ) -> None:
        super().__init__(verbose)
        self.max_bytes = None if max_rss is None else parse_bytes(max_rss)
        self.save_path = save_path
        self.recording = recording
        self.diagnosis: Diagnosis | None = None
        self.stopped_at_bytes: int | None = None
        self._is_training = False
        self._session = TrainingSession(recording, self.max_bytes, every_seconds)
        if apply:
            ramledger.apply(apply, say=self._say)

    def __getstate__(self) -> dict[str, Any]:
        dropped = {"model": None, "parent": None}
        return self.__dict__ | dropped | {"locals": {}, "globals": {}}

    def _on_training_start(self) -> None:
        self.stopped_at_bytes = None
        self._session.begin(self._say, self.checkpoint if self.save_path is not None else None)
        self._is_training = True
        self._log()

    def _on_step(self) -> bool:
        if time.monotonic() < self._session.next_check_at:
            return True
        used = self._session.exceeded_bytes()
        if used is None or self.max_bytes is None:
            return True
        self.stopped_at_bytes = used
        self.checkpoint()
        self._say(f"RSS {format_bytes(used)} is above {format_bytes(self.max_bytes)}: stopping")
        return False

    def _on_rollout_end(self) -> None:
        self._log()

    def checkpoint(self) -> None:
        """Save the model that is learning to `save_path`."""
        if not self._is_training or self.save_path is None:
            return
        if save_model(self.model, self.save_path):
            self._say(f"memory runs out: saved {self.save_path}")

    def _on_training_end(self) -> None:
        self._is_training = False
        found = self._session.diagnose()
        if found is not None:  # rl-zoo3 has it in its list twice
            self.diagnosis = found
            self._say(verdict_line(found))

    def _log(self) -> None:
        """SB3 forgets values when it writes them: every row gets the last statement's.

        Its table on the terminal gets no groups that are empty.
        """
        for name, value in self._session.scalars(model=self.model).items():
            self.logger.record(name, value, exclude=None if value else "stdout")

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"ramledger: {printable(text)}")
