"""A folder for one process, inside a folder that belongs to somebody else.

Its owner holds a lock in it, so that the folder of a killed process can be found and removed.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from ramledger.durable_files import opened
from ramledger.errors import CheckpointError

_LOCK = "owner.lock"
_OWNER = b"ramledger\n"


class PrivateFolder:
    """A new folder; folders of the same prefix without a living owner are removed."""

    def __init__(self, inside: Path, prefix: str) -> None:
        self._fd = -1
        try:
            inside.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(inside, prefix)
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=inside))
            lock = self.path / _LOCK
            draft = lock.with_suffix(".new")
            self._fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.write(self._fd, _OWNER)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.rename(lock)  # under its final name it is always locked
        except OSError as error:
            self.remove()
            raise CheckpointError(
                f"cannot write to {inside}: {error.strerror}",
                hint="free disk space, or choose a folder that you may write to",
            ) from None

    def remove(self) -> None:
        if hasattr(self, "path"):
            shutil.rmtree(self.path, ignore_errors=True)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _remove_abandoned(inside: Path, prefix: str) -> None:
    for path in inside.glob(f"{prefix}*/{_LOCK}"):
        with suppress(OSError, CheckpointError):
            fd = opened(path)
            try:
                if os.pread(fd, len(_OWNER) + 1, 0) == _OWNER:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path.parent, ignore_errors=True)
            finally:
                os.close(fd)
