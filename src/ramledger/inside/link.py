"""The way to the recorder: events are put by any thread at once and sent by the agent's thread.

A recorder that is slow, gone or killed costs the training nothing: events are dropped.
"""

import json
import os
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import Any

MAX_WAITING = 2_000
_SEND_SECONDS = 2.0
_MAX_EVENT_BYTES = 3 << 20


class EventLink:
    """A queue with a socket at its end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MAX_WAITING)
        self._socket: socket.socket | None = None
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
                self._send_all(seconds)
            except (OSError, ValueError):
                # the recorder is gone: from now on nothing is collected for it
                self.is_broken = True
                self._waiting.clear()
                self.close()

    def _send_all(self, seconds: float) -> None:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(seconds)
            self._socket.connect(self._path)
        while self._waiting:
            event = {"pid": os.getpid(), **self._waiting.popleft()}
            data = json.dumps(event, separators=(",", ":"), default=str).encode() + b"\n"
            if len(data) <= _MAX_EVENT_BYTES:
                self._socket.sendall(data)

    def close(self) -> None:
        """Let the recorder know that no more comes."""
        with suppress(OSError):
            if self._socket is not None:
                self._socket.close()
        self._socket = None
