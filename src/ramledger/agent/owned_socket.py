"""Unix sockets in a program's process that are used only while they are ours.

No socket object of Python's lives between two calls: it would close its number when it is deleted,
whosever that is by then.
"""

import errno
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from ramledger.descriptors import OwnedDescriptor

_KIND = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
# a program may have SIGPIPE end it
_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_PIECE_BYTES = 1 << 16
_FULL_REST_SECONDS = 0.005


class OwnedSocket(OwnedDescriptor):
    """A Unix stream socket; whatever waits, waits for the given time at most."""

    __slots__ = ()

    @classmethod
    def create(cls) -> Self:
        return cls.made_by("socket", socket.AF_UNIX, _KIND, 0)

    def bind(self, path: str) -> None:
        with self._borrowed() as ours:
            ours.bind(path)

    def listen(self, backlog: int) -> None:
        with self._borrowed() as ours:
            ours.listen(backlog)

    def accept(self) -> Self | None:
        """The next client, if there is one."""
        try:
            return self.made_by("accept4", self.fileno(), None, None, _KIND & ~socket.SOCK_STREAM)
        except BlockingIOError:
            return None

    def connect(self, path: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                with self._borrowed() as ours:
                    return ours.connect(path)
            except BlockingIOError:  # too many wait there to be accepted: unix(7)
                if time.monotonic() > deadline:
                    raise TimeoutError(errno.ETIMEDOUT, "nobody accepts the connection") from None
                time.sleep(_FULL_REST_SECONDS)

    def send_all(self, data: bytes, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        rest = memoryview(data)
        while rest:
            try:
                with self._borrowed() as ours:
                    rest = rest[ours.send(rest[:_PIECE_BYTES], _FLAGS) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)

    def receive(self, most_bytes: int, seconds: float) -> bytes:
        """What has come, once something has; nothing at the end."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                with self._borrowed() as ours:
                    return ours.recv(most_bytes, _FLAGS)
            except BlockingIOError:
                self._wait(select.POLLIN, deadline)

    def peer_user(self) -> int:
        """The user at the other end."""
        with self._borrowed() as ours:
            credentials = ours.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", credentials)[1])

    def hang_up(self) -> None:
        """Close, also for a forked child that holds it, too."""
        with suppress(OSError), self._borrowed() as ours:
            ours.shutdown(socket.SHUT_RDWR)
        self.close()

    @contextmanager
    def _borrowed(self) -> Iterator[socket.socket]:
        """A socket object for one call. What it is made of is checked right before that call."""
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.fileno())
        try:
            self.fileno()
            yield ours
        finally:
            ours.detach()

    def _wait(self, event: int, deadline: float) -> None:
        milliseconds = (deadline - time.monotonic()) * 1000
        poll = select.poll()
        poll.register(self.fileno(), event)
        if milliseconds <= 0 or not poll.poll(milliseconds):
            raise TimeoutError(errno.ETIMEDOUT, "the other end is too slow")
