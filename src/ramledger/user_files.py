"""Files that a user names: only regular files, read up to a limit, written whole or not at all.

Opening a FIFO waits for its other end, a device may never end, and replacing a device breaks the
machine: each of these is an error that says what the path is, before anything is opened.
"""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from ramledger.errors import RamledgerError

MAX_LINE_CHARACTERS = 1 << 20

Kind = type[RamledgerError]

_KINDS = {
    stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


def open_to_read(path: str | os.PathLike[str], error: Kind, hint: str) -> BinaryIO:
    """A regular file, open for reading; anything else is an `error`, at once."""
    try:
        _require_regular(path, os.stat(path))
        # nothing waits here even if the path became a FIFO in between
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            _require_regular(path, os.fstat(fd))
            return open(fd, "rb")
        except BaseException:
            os.close(fd)
            raise
    except (OSError, ValueError) as problem:
        raise error(f"cannot read {_name(path)}: {_reason(path, problem)}", hint=hint) from None


def read_bytes(
    path: str | os.PathLike[str], most_bytes: int, error: Kind, hint: str, what: str = "such a file"
) -> bytes:
    """The content of a regular file; one larger than `most_bytes` is an `error` and is not read."""
    with open_to_read(path, error, hint) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            # files of /proc have no size, and a file may grow while it is read
            data = b"" if size > most_bytes else file.read(most_bytes + 1)
        except OSError as problem:
            raise error(f"cannot read {_name(path)}: {problem.strerror}", hint=hint) from None
    size = max(size, len(data))
    if size > most_bytes:
        raise error(
            f"{_name(path)} is too large for {what}: {size:,} bytes",
            hint=f"the limit is {most_bytes:,} bytes",
        )
    return data


def read_text(
    path: str | os.PathLike[str], most_bytes: int, error: Kind, hint: str, what: str = "such a file"
) -> str:
    """The content of a regular file as text."""
    try:
        return read_bytes(path, most_bytes, error, hint, what).decode("utf-8")
    except UnicodeDecodeError as problem:
        raise _not_text(path, problem, error) from None


def text_lines(path: str | os.PathLike[str], error: Kind, hint: str) -> Iterator[str]:
    """The lines of a text file of any size, one at a time; an endless line is an `error`."""
    with io.TextIOWrapper(
        open_to_read(path, error, hint), encoding="utf-8", errors="strict", newline=""
    ) as file:
        try:
            while line := file.readline(MAX_LINE_CHARACTERS):
                if len(line) == MAX_LINE_CHARACTERS:
                    raise error(
                        f"{_name(path)} has a line of more than {MAX_LINE_CHARACTERS:,} characters",
                        hint=hint,
                    )
                yield line
        except UnicodeDecodeError as problem:
            raise _not_text(path, problem, error) from None
        except OSError as problem:
            raise error(f"cannot read {_name(path)}: {problem.strerror}", hint=hint) from None


def create(path: str, *, force: bool, error: Kind, hint: str) -> int:
    """A descriptor that appends to a new file, or with `force` to one that is emptied first."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        _require_replaceable(path, force=force)
        fd = os.open(path, flags if force else flags | os.O_EXCL, 0o644)
        try:
            _require_regular(path, os.fstat(fd))
            os.ftruncate(fd, 0)
        except BaseException:
            os.close(fd)
            raise
    except (OSError, ValueError) as problem:
        raise _cannot_write(path, problem, error, hint) from None
    return fd


def write_whole(path: str, data: bytes, *, force: bool, error: Kind, hint: str) -> None:
    """Write a file whole or not at all; without `force`, only if it does not exist yet."""
    partial = ""
    try:
        _require_replaceable(path, force=force)
        target = os.path.realpath(path)  # replace the target of a link, not the link
        partial = f"{target}.{os.getpid()}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(partial, flags, 0o644), "wb") as file:
            file.write(data)
        _put_in_place(partial, target, force=force)
    except (OSError, ValueError) as problem:
        raise _cannot_write(path, problem, error, hint) from None
    finally:
        if partial:
            with suppress(OSError):
                os.unlink(partial)


def has_mark(path: str, mark: bytes, within_bytes: int) -> bool:
    """Whether a regular file has `mark` in its first bytes."""
    try:
        with open_to_read(path, RamledgerError, "") as file:
            return mark in file.read(within_bytes)
    except (OSError, RamledgerError):
        return False


def current_directory() -> str:
    """The working directory; '' if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _put_in_place(partial: str, target: str, *, force: bool) -> None:
    if not force:
        try:
            os.link(partial, target)  # fails if another process has created it meanwhile
            return
        except OSError as problem:
            if problem.errno not in _NO_LINKS:
                raise
    os.replace(partial, target)


def _require_replaceable(path: str | os.PathLike[str], *, force: bool) -> None:
    try:
        found = os.stat(path) if force else os.lstat(path)
    except FileNotFoundError:
        return
    if not force:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    _require_regular(path, found)


def _require_regular(path: str | os.PathLike[str], found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'special')}, not a file")


def _cannot_write(
    path: str | os.PathLike[str], problem: OSError | ValueError, error: Kind, hint: str
) -> RamledgerError:
    if isinstance(problem, FileExistsError):
        return error(
            f"{_name(path)} exists already",
            hint="choose another name, or overwrite it with --force (in Python: force=True)",
        )
    return error(f"cannot write {_name(path)}: {_reason(path, problem)}", hint=hint)


def _not_text(
    path: str | os.PathLike[str], problem: UnicodeDecodeError, error: Kind
) -> RamledgerError:
    return error(f"{_name(path)} is not text: {problem.reason}", hint="save it as UTF-8")


def _reason(path: str | os.PathLike[str], problem: OSError | ValueError) -> str:
    if isinstance(problem, FileNotFoundError) and os.path.islink(path):
        return f"it is a link to {os.readlink(path)}, which does not exist"
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)


def _name(path: Any) -> str:
    return os.fspath(path) if isinstance(path, os.PathLike) else str(path)
