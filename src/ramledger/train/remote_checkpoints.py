"""Checkpoints are uploaded while training goes on, and fetched to resume elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ramledger import RamledgerError
from ramledger.replay import download, open_store, upload_in_background
from ramledger.train import checkpoint

Report = Callable[[str], None]


class Uploader:
    """Sends one checkpoint at a time; of those that come meanwhile, only the last is sent.

    An error does not end the training: the next upload tries again, and `error` is the last one.
    """

    def __init__(
        self, folder: Path, url: str, keep: int, report: Report = lambda _: None, *,
        overwrite: bool = False,
    ) -> None:  # fmt: skip
        open_store(url)  # a wrong address is an error before the training, not after it
        self.url = url
        self.error: RamledgerError | None = None
        self._folder, self._keep, self._report = folder, keep, report
        self._overwrite = overwrite  # for the first upload; later ones follow their own
        self._job: Any = None
        self._waiting: Path | None = None

    def send(self, state: Path) -> None:
        """The newest save of the buffer with its state file; returns at once."""
        self._waiting = state
        if self._job is None or not self._job.is_running:
            self._collect()
            self._start()

    def finish(self) -> None:
        """Wait until the last checkpoint is uploaded or has failed."""
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
        self._report(f"save {done.number} is at {self.url}, {done.uploaded_bytes:,} B were new")

    def _failed(self, error: RamledgerError) -> None:
        self.error = error
        self._report(f"not uploaded: {error.message}")


def fetch(url: str, folder: Path) -> None:
    """Download the newest whole checkpoint at an address into a folder, to resume from it."""
    download(url, folder / checkpoint.REPLAY, extra=folder, check=checkpoint.check_state)
