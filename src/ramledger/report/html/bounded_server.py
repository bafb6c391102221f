"""An HTTP server that slow clients cannot fill: bounded heads, deadlines, a bounded number at once.

Where all places are taken, whoever has waited longest without having asked makes room.
A client that left is no news.
"""

import io
import socket
import threading
import time
from contextlib import suppress
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOOPBACK = "127.0.0.1"
HEAD_SECONDS = 5.0  # from the connection to the end of the request's head
ANSWER_SECONDS = 60.0  # from there to the end of the answer
MAX_HEAD_BYTES = 32 << 10
_REST_SECONDS = 0.05  # after a connection that could not be taken


class _Connection:
    """One client: when it connected, and whether it has sent its request."""

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self.has_asked = False
        self.deadline = time.monotonic() + HEAD_SECONDS

    def asked(self) -> None:
        self.has_asked = True
        self.deadline = time.monotonic() + ANSWER_SECONDS

    def end(self) -> None:
        """Whoever reads from or writes to it finds it closed; its thread closes the descriptor."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class BoundedServer(ThreadingHTTPServer):
    """Holds at most `most` connections; its threads do not keep a process alive."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], handler: type["BoundedHandler"], *, most: int
    ) -> None:
        self._most = most
        self._connections: dict[int, _Connection] = {}  # by id of the socket, oldest first
        self._changing = threading.Lock()
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:  # no descriptor is left: the next try may find one
            self._make_room()
            time.sleep(_REST_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changing:
            is_full = len(self._connections) >= self._most
        if is_full and not self._make_room():
            self.shutdown_request(request)
            return
        with self._changing:
            self._connections[id(request)] = _Connection(request)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread could be started
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._changing:
            self._connections.pop(id(request), None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called by the loop that accepts, twice a second and after every connection."""
        now = time.monotonic()
        with self._changing:
            late = [one for one in self._connections.values() if now > one.deadline]
            for one in late:
                one.end()

    def has_asked(self, request: Any) -> None:
        """The head of a request is complete: from here on its client is served."""
        with self._changing:
            connection = self._connections.get(id(request))
            if connection is not None:
                connection.asked()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects is not reported."""

    def _make_room(self) -> bool:
        """End the connection that has waited longest without asking; False if all have asked."""
        with self._changing:
            for key, connection in self._connections.items():
                if not connection.has_asked:
                    connection.end()
                    del self._connections[key]
                    return True
        return False


class BoundedHandler(BaseHTTPRequestHandler):
    """Reads a head of bounded length, then calls the server. One request each."""

    server: BoundedServer
    server_version = "ramledger"
    sys_version = ""
    timeout = HEAD_SECONDS

    def setup(self) -> None:
        super().setup()
        self.rfile = _Head(self.rfile)  # type: ignore[assignment]

    def parse_request(self) -> bool:
        is_whole = super().parse_request()
        self.server.has_asked(self.request)
        # the socket's own timeout is for all of an answer, not for a part of it
        self.connection.settimeout(ANSWER_SECONDS)
        return is_whole

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal is not ours, and a path may hold a secret."""


class _Head:
    """The lines of a request's head, up to so many bytes."""

    def __init__(self, raw: io.BufferedIOBase) -> None:
        self._raw = raw
        self._left = MAX_HEAD_BYTES

    def readline(self, most: int = -1) -> bytes:
        line = self._raw.readline(min(most, self._left + 1) if most >= 0 else self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("head")
        return line

    def close(self) -> None:
        self._raw.close()

    @property
    def closed(self) -> bool:
        return self._raw.closed
