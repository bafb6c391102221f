"""Files that we write ourselves and that must survive a crash: replay and trainer checkpoints.

Only regular files are read, so that nothing blocks and no link is followed. A new file is a draft
under a name that no other writer has until it is durable; existing files are never written to.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ramledger.errors import CheckpointError
from ramledger.ledger import printable

LONGEST_TEXT = 300

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def opened(path: Path) -> int:
    """A descriptor of a regular file; a pipe, a device, a folder or a link is an error."""
    try:
        fd = os.open(path, _READ)
    except OSError as error:
        raise unreadable(path, error.strerror) from None
    try:
        is_regular = stat.S_ISREG(os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    if not is_regular:
        os.close(fd)
        raise unreadable(path, "it is not a regular file")
    return fd


def read_whole(path: Path) -> bytes:
    """All bytes of a regular file."""
    with os.fdopen(opened(path), "rb") as file:
        try:
            return file.read()
        except OSError as error:
            raise unreadable(path, error.strerror) from None


def read_head(path: Path, size: int) -> bytes:
    """The first bytes of a regular file, fewer if it is shorter."""
    fd = opened(path)
    try:
        return os.pread(fd, size, 0)
    except OSError as error:
        raise unreadable(path, error.strerror) from None
    finally:
        os.close(fd)


def size_of(path: Path) -> int:
    """The size of a regular file."""
    fd = opened(path)
    try:
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def unreadable(path: Path, what: str | None) -> CheckpointError:
    return CheckpointError(f"cannot read {path}: {what}", hint="an earlier save may be intact")


def new_token() -> str:
    """16 hexadecimal digits that no other writer has."""
    return secrets.token_hex(8)


@contextmanager
def draft_of(target: Path, draft: Path) -> Iterator[BinaryIO]:
    """A new file that replaces `target` once it is complete and durable; removed on an error."""
    fd = os.open(draft, _DRAFT, 0o644)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def sync_folder(folder: Path) -> None:
    """Make names that were created, renamed or removed durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def shown(found: object) -> str:
    """Text that came from a file, for a message: short, and without control characters."""
    text = str(found)
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + "…"
    return printable(text)
