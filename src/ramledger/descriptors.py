"""Descriptors in a process whose program may close or reuse any number at any time.

A descriptor is used and closed only while its number still refers to what we opened. A separate
descriptor table for our thread, by unshare(2), would not work: the garbage collector may run the
program's finalizers in any thread, and those use descriptors of the program's table.
"""

import errno
import functools
import os
import select
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Self

_F_GETFD, _F_SETSIG, _F_GETSIG, _F_DUPFD_CLOEXEC = 1, 10, 11, 1030  # fcntl(2)
# A signal number that is set on the open file but never delivered, because O_ASYNC is off. It
# belongs to the open file, not to the number: another file at that number does not have it.
_MARK = 57
_OUT_OF_THE_WAY = 768  # of the usual 1024: programs expect to get the lowest numbers
_PIECE_BYTES = 1 << 14
_SETTLE_SECONDS = 1.0
_GETDENTS64 = {"x86_64": 217, "aarch64": 61}  # numbers of the system call

_held: "dict[int, OwnedDescriptor]" = {}  # by number: the object that opened it last


@functools.cache
def _libc() -> Any:
    """System calls that keep the GIL: no Python code of the program runs in between."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        symbols = ctypes.PyDLL(None, use_errno=True)
        symbols.fcntl.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int)
    except (ImportError, OSError, AttributeError):
        return None
    return symbols


class OwnedDescriptor:
    """A descriptor that we opened, used only until the program closes it; a context manager.

    A forked child closes all of them.
    """

    __slots__ = ("_identity", "_number")

    def __init__(self, number: int, *, is_brief: bool = False) -> None:
        """Take over `number`, just opened; `is_brief` if the GIL is held until it is closed."""
        self._number = number
        self._identity: tuple[int, int] | None = None
        libc = _libc()
        if libc is not None and (not is_brief or number <= 2):
            self._number = _moved(number, libc)
        if libc is None or libc.fcntl(self._number, _F_SETSIG, _MARK) < 0:
            found = os.fstat(self._number)
            self._identity = found.st_dev, found.st_ino
        _held[self._number] = self

    @classmethod
    def made_by(cls, function: str, *arguments: Any) -> Self:
        """The descriptor that a C function returns, which must not block; Linux only."""
        number: int = getattr(_libc(), function)(*arguments)
        if number < 0:
            raise _last_error(function)
        return cls(number)

    @property
    def is_ours(self) -> bool:
        """Whether the number still refers to what we opened."""
        if _held.get(self._number) is not self:
            return False
        if self._identity is None:
            return bool(_libc().fcntl(self._number, _F_GETSIG, 0) == _MARK)
        try:
            found = os.fstat(self._number)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def fileno(self) -> int:
        """The number, to be used at once; OSError (EBADF) if the program has closed it."""
        if not self.is_ours:
            raise OSError(errno.EBADF, "closed by the program")
        return self._number

    def close(self) -> None:
        """Close it if it is still ours; may be called twice."""
        if _held.get(self._number) is not self:
            return
        is_ours = self.is_ours
        del _held[self._number]
        if is_ours:
            _close(self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WakeDescriptor(OwnedDescriptor):
    """An eventfd that wakes a thread of ours. The GIL is held from the check to the call."""

    @classmethod
    def make(cls) -> Self:
        return cls.made_by("eventfd", 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def ring(self) -> None:
        """Wake whoever waits for it; OSError if the program has closed it."""
        import ctypes

        if _libc().eventfd_write(self.fileno(), ctypes.c_uint64(1)) < 0:
            raise _last_error("eventfd")

    def clear(self) -> None:
        """Take back what was rung."""
        import ctypes

        _libc().eventfd_read(self.fileno(), ctypes.byref(ctypes.c_uint64()))


def open_kernel_file(
    path: str, flags: int = os.O_RDONLY, *, is_brief: bool = False
) -> OwnedDescriptor:
    """A file of /proc or /sys; OSError as from os.open."""
    libc = _libc()
    if libc is None:
        return OwnedDescriptor(os.open(path, flags), is_brief=is_brief)
    number: int = libc.open(os.fsencode(path), flags | os.O_CLOEXEC)
    if number < 0:
        raise _last_error(path)
    return OwnedDescriptor(number, is_brief=is_brief)


def _last_error(what: str) -> OSError:
    import ctypes

    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), what)


def read_pieces(path: str, piece_bytes: int = _PIECE_BYTES) -> Iterator[bytes]:
    """The content of a kernel file, piece by piece."""
    # by position: where the program has just put a pipe, a socket or an eventfd of its own at this
    # number, pread() fails, while read() would take what is in it
    with open_kernel_file(path) as file:
        position = 0
        while piece := os.pread(file.fileno(), piece_bytes, position):
            position += len(piece)
            yield piece


def read_kernel_file(path: str) -> bytes:
    """The whole content of a file of /proc or /sys, or of another that is not large."""
    return b"".join(read_pieces(path))


def list_folder(path: str) -> list[str]:
    """The names in a folder of /proc or /sys; OSError as from os.listdir.

    os.listdir() opens the lowest free descriptor, and later closes whatever has that number then.
    """
    libc, getdents = _libc(), _GETDENTS64.get(os.uname().machine)
    if libc is None or getdents is None:
        return os.listdir(path)
    import ctypes

    names: list[str] = []
    buffer = ctypes.create_string_buffer(_PIECE_BYTES)
    with open_kernel_file(path, os.O_RDONLY | os.O_DIRECTORY) as folder:
        while size := libc.syscall(getdents, folder.fileno(), buffer, _PIECE_BYTES):
            if size < 0:
                raise _last_error(path)
            names += _names_in(buffer.raw[:size])
    return [name for name in names if name not in (".", "..")]


def _names_in(entries: bytes) -> Iterator[str]:
    """The names in a result of getdents64(2): records of inode, offset, length, type, name."""
    at = 0
    while at < len(entries):
        length = int.from_bytes(entries[at + 16 : at + 18], sys.byteorder)
        yield os.fsdecode(entries[at + 19 : at + length].partition(b"\0")[0])
        at += length


def read_beginning(path: str, most_bytes: int) -> bytes:
    """The result of one read(2) of a file of /proc that takes microseconds: the GIL is held."""
    libc = _libc()
    with open_kernel_file(path, is_brief=True) as file:
        if libc is None:
            return os.read(file.fileno(), most_bytes)
        import ctypes

        buffer = ctypes.create_string_buffer(most_bytes)
        size: int = libc.read(file.fileno(), buffer, most_bytes)
        if size < 0:
            raise _last_error(path)
        return ctypes.string_at(buffer, size)


def ready_among(
    owned: Iterable[OwnedDescriptor], milliseconds: float | None
) -> list[OwnedDescriptor]:
    """Wait until one can be read; all that can be. Closed ones are not waited for."""
    poll = select.poll()
    by_number: dict[int, OwnedDescriptor] = {}
    for one in owned:
        if one.is_ours:
            by_number[one.fileno()] = one
            poll.register(one.fileno(), select.POLLIN)
    found = poll.poll(milliseconds)
    return [by_number[number] for number, _ in found if by_number[number].is_ours]


class StandardStreams:
    """Whether descriptors 0 to 2 are in their final state.

    A program that becomes a daemon closes them and expects its next open() to return them, so we
    must not open anything meanwhile. If they stay closed for a second, that is the final state.
    """

    def __init__(self) -> None:
        self._closed: tuple[int, ...] = ()
        self._since = 0.0

    def are_settled(self) -> bool:
        libc = _libc()
        if libc is None:
            return True
        closed = tuple(n for n in range(3) if libc.fcntl(n, _F_GETFD, 0) < 0)
        if closed != self._closed:
            self._closed, self._since = closed, time.monotonic()
        return not closed or time.monotonic() - self._since > _SETTLE_SECONDS


def _close_all() -> None:
    """In a forked child: an inherited copy would hide the end of the parent from its peers."""
    for owned in list(_held.values()):
        with suppress(OSError):
            owned.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)


def _close(number: int) -> None:
    libc = _libc()
    if libc is None:
        os.close(number)
    elif libc.close(number) < 0:
        raise _last_error("close")


@functools.cache
def _lowest() -> int:
    """From the limit at the first call; if it is lowered later, the kernel chooses the number."""
    limit = os.sysconf("SC_OPEN_MAX")
    return _OUT_OF_THE_WAY if limit < 0 else min(_OUT_OF_THE_WAY, max(3, limit * 3 // 4))


def _moved(number: int, libc: Any) -> int:
    """The same file at a number that no program expects, if one is free."""
    lowest = _lowest()
    if number >= lowest:
        return number
    higher: int = libc.fcntl(number, _F_DUPFD_CLOEXEC, lowest)
    if higher < 0:
        return number
    libc.close(number)
    return higher
