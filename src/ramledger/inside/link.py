"""The way to the recorder: events are put by any thread at once and sent by the agent's thread.

A recorder that is slow, gone or killed costs the training nothing: events are dropped.
"""

import json
import os
import threading
from collections import deque
from typing import Any

from ramledger.inside.owned_socket import OwnedSocket

MAX_WAITING = 2_000
_SEND_SECONDS = 2.0
_MAX_EVENT_BYTES = 3 << 20


class EventLink:
    """A queue with a socket at its end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MAX_WAITING)
        self._socket: OwnedSocket | None = None
        self._lock = threading.Lock()
        self.is_broken = False

    def put(self, event: dict[str, Any]) -> None:
        """Queue an event; never blocks, never raises."""
        if not self.is_broken:
            self._waiting.append(event)

    def flush(self, seconds: float = _SEND_SECONDS) -> None:
        """Send what is queued. Called by the agent's thread, and once more at exit."""
        if self.is_broken or not self._waiting:
            return
        with self._lock:
            try:
                while self._waiting:
                    data = _encoded(self._waiting.popleft())
                    if len(data) <= _MAX_EVENT_BYTES:
                        self._send(data, seconds)
            except (OSError, ValueError):
                # the recorder is gone: from now on nothing is collected for it
                self.is_broken = True
                self._waiting.clear()
                self.close()

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
                self.close()
        raise ConnectionError("every connection is closed at once")

    def close(self) -> None:
        """Let the recorder know that no more comes."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def _encoded(event: dict[str, Any]) -> bytes:
    text = json.dumps({"pid": os.getpid(), **event}, separators=(",", ":"), default=str)
    return text.encode() + b"\n"
