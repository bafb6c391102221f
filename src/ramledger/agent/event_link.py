"""The way to the recorder: events are put by any thread at once and sent by the agent's thread.

A recorder that is slow, gone or killed costs the training nothing: events are dropped.
"""

import threading
import time
from collections import deque

from ramledger.agent.owned_socket import OwnedSocket
from ramledger.event_encoding import encode, json_line
from ramledger.events import Event

MAX_WAITING = 2_000
_SEND_SECONDS = 2.0
_PATIENCE_SECONDS = 10.0
_MAX_EVENT_BYTES = 3 << 20


class EventLink:
    """A queue with a socket at its end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: deque[Event] = deque(maxlen=MAX_WAITING)
        self._socket: OwnedSocket | None = None
        self._lock = threading.Lock()
        self.is_broken = False
        self._patient_until = 0.0  # a recorder in this process has to listen anew, too

    def put(self, event: Event) -> None:
        """Queue an event; never blocks, never raises."""
        if not self.is_broken:
            self._waiting.append(event)

    def flush(self, seconds: float = _SEND_SECONDS) -> None:
        """Send what is queued. Called by the agent's thread, and once more at exit."""
        if self.is_broken or not self._waiting:
            return
        with self._lock:
            while self._waiting:
                event = self._waiting.popleft()
                data = _line(event)
                if not 0 < len(data) <= _MAX_EVENT_BYTES:
                    continue
                try:
                    self._send(data, seconds)
                except (OSError, ValueError):
                    self.close()
                    if time.monotonic() < self._patient_until:
                        self._waiting.appendleft(event)
                        return
                    # the recorder is gone: from now on nothing is collected for it
                    self.is_broken = True
                    self._waiting.clear()

    def _send(self, data: bytes, seconds: float) -> None:
        """Send a line, over a new connection where the program has closed an end of ours."""
        for _ in range(2):
            if self._socket is None:
                self._socket = OwnedSocket.create()
                self._socket.connect(self._path, seconds)
            try:
                return self._socket.send_all(data, seconds)
            except OSError as error:
                if self._socket.is_ours and not isinstance(error, ConnectionError):
                    raise
                if not self._socket.is_ours:
                    self._patient_until = time.monotonic() + _PATIENCE_SECONDS
                self.close()
        raise ConnectionError("every connection is closed at once")

    def close(self) -> None:
        """Let the recorder know that no more comes."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def _line(event: Event) -> bytes:
    """Empty for an event that cannot be encoded: a program may state odd values."""
    try:
        return json_line(encode(event))
    except Exception:
        return b""
