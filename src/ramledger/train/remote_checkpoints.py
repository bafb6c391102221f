"""Checkpoints to another place while training goes on, and back from there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ramledger import RamledgerError
from ramledger.replay import download, open_store, upload_in_background
from ramledger.train import checkpoint

Told = Callable[[str], None]


class Uploader:
    """Sends one checkpoint at a time; those that come meanwhile wait, and only the last is sent.

    What goes wrong does not end a training: the next upload tries again, and `error` is what the
    last one met with.
    """

    def __init__(
        self, folder: Path, url: str, keep: int, told: Told = lambda _: None, *,
        overwrite: bool = False,
    ) -> None:  # fmt: skip
        open_store(url)  # a wrong address is known before the training, not after it
        self.url = url
        self.error: RamledgerError | None = None
        self._folder, self._keep, self._told = folder, keep, told
        self._overwrite = overwrite  # until the first is there: then it goes on from its own
        self._job: Any = None
        self._waiting: Path | None = None

    def send(self, state: Path) -> None:
        """The newest save of the buffer with its state file; returns at once."""
        self._waiting = state
        if self._job is None or not self._job.is_running:
            self._collect()
            self._start()

    def finish(self) -> None:
        """Until the last checkpoint is there, or could not be sent."""
        self._collect()
        self._start()
        self._collect()

    def _start(self) -> None:
        state, self._waiting = self._waiting, None
        if state is None:
            return
        try:
            self._job = upload_in_background(
                self._folder / checkpoint.REPLAY, self.url, keep=self._keep, extra=[state],
                overwrite=self._overwrite,
            )  # fmt: skip
        except RamledgerError as error:
            self._failed(error)

    def _collect(self) -> None:
        job, self._job = self._job, None
        if job is None:
            return
        try:
            done = job.wait()
        except RamledgerError as error:
            self._failed(error)
            return
        self.error, self._overwrite = None, False
        self._told(f"save {done.number} is at {self.url}, {done.uploaded_bytes:,} B were new")

    def _failed(self, error: RamledgerError) -> None:
        self.error = error
        self._told(f"not uploaded: {error.message}")


def fetch(url: str, folder: Path) -> None:
    """The newest whole checkpoint at an address into a folder, where a run goes on from it."""
    download(url, folder / checkpoint.REPLAY, extra=folder, check=checkpoint.check_state)
