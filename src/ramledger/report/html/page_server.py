"""The page of a run on loopback, while the run goes on: read-only, for whoever has the address.

A token in the path keeps other users of the machine out; Host, Origin and Sec-Fetch-Site are
checked, so that no page of the web can ask through the user's browser.
"""

import hmac
import os
import secrets
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ramledger.errors import RamledgerError
from ramledger.report.html.bounded_server import LOOPBACK, BoundedHandler, BoundedServer
from ramledger.report.html.page import encoded, page_html
from ramledger.report.html.page_data import detail_data, page_documents
from ramledger.run.model import Run

MAX_VIEWERS = 32  # connections at once
_REST = 4  # times as long as it took to read a recording, before it is read again
_LEAST_REST_SECONDS = 1.0

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LiveRuns:
    """Recordings that may still grow; each version of them is read once for all viewers."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._reading = threading.Lock()
        self._state: tuple[tuple[int, int], ...] = ()
        self._next_reading = 0.0
        self.runs: list[dict[str, Any]] = []
        self.tag = ""
        self.refresh()

    @property
    def is_over(self) -> bool:
        return all(run["is_over"] for run in self.runs)

    def refresh(self) -> None:
        """Read again what has grown, unless another thread does so or has just done so."""
        if time.monotonic() < self._next_reading or not self._reading.acquire(blocking=False):
            return
        try:
            state = tuple(map(_file_state, self._paths))
            if state != self._state:
                self._read()
                self._state = state
        finally:
            self._reading.release()

    def detail(self, run: int, begin: float, end: float) -> dict[str, Any]:
        with self._reading:
            return detail_data(Run.read(self._paths[run]), begin, end)

    def _read(self) -> None:
        started = time.monotonic()
        runs = page_documents([Run.read(path) for path in self._paths])
        self.runs, self.tag = runs, f'"{secrets.token_hex(8)}"'
        took = time.monotonic() - started
        self._next_reading = time.monotonic() + max(_LEAST_REST_SECONDS, _REST * took)


def _file_state(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_size, found.st_mtime_ns)


class PageServer(BoundedServer):
    """Serves the page of some recordings on 127.0.0.1 under a secret path."""

    request_queue_size = MAX_VIEWERS

    def __init__(self, paths: Sequence[str], port: int = 0) -> None:
        self.live = LiveRuns(paths)
        self.token = secrets.token_urlsafe(18)
        self.asked_at = time.monotonic()
        super().__init__((LOOPBACK, port), _Handler, most=MAX_VIEWERS)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"


class _Handler(BoundedHandler):
    server: PageServer

    def do_GET(self) -> None:
        problem = self._refusal()
        if problem is not None:
            self._answer(problem, "text/plain", problem.phrase)
            return
        self.server.asked_at = time.monotonic()
        address = urlsplit(self.path)
        name = address.path.removeprefix(f"/{self.server.token}/")
        live = self.server.live
        try:
            live.refresh()
            if name == "":
                self._answer(HTTPStatus.OK, "text/html", page_html(live.runs, live=True))
            elif name == "data":
                self._data(live)
            elif name == "detail":
                self._detail(live, address.query)
            else:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", "there is no such page")
        except RamledgerError as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", str(error))

    def _refusal(self) -> HTTPStatus | None:
        """Why this request is not answered; None when it comes from our own page."""
        hosts = {f"{name}:{self.server.port}" for name in (LOOPBACK, "localhost")}
        if self.headers.get("Host") not in hosts:
            return HTTPStatus.FORBIDDEN  # DNS rebinding: a public name that resolves to us
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in hosts}:
            return HTTPStatus.FORBIDDEN
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return HTTPStatus.FORBIDDEN
        token = self.path.partition("/")[2].partition("/")[0]
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return HTTPStatus.NOT_FOUND
        return None

    def _data(self, live: LiveRuns) -> None:
        tag, runs = live.tag, live.runs
        if self.headers.get("If-None-Match") == tag:
            self._answer(HTTPStatus.NOT_MODIFIED, "application/json", "")
        else:
            self._answer(HTTPStatus.OK, "application/json", encoded({"runs": runs}), tag)

    def _detail(self, live: LiveRuns, query: str) -> None:
        asked = parse_qs(query)
        try:
            run = int(asked["run"][0])
            begin, end = float(asked["from"][0]), float(asked["to"][0])
            if not (0 <= run < len(live.runs) and begin <= end):
                raise ValueError(query)
        except (KeyError, ValueError):
            self._answer(HTTPStatus.BAD_REQUEST, "text/plain", "run, from and to are needed")
            return
        self._answer(HTTPStatus.OK, "application/json", encoded(live.detail(run, begin, end)))

    def _answer(self, status: HTTPStatus, kind: str, text: str, tag: str = "") -> None:
        body = text.encode(errors="backslashreplace")
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        if tag:
            self.send_header("ETag", tag)
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
