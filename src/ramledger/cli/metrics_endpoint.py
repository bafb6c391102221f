"""`run --prometheus :9464`: the latest metrics over HTTP, to whoever scrapes that address."""

import socket
import threading
import time
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from ramledger.errors import ConfigError
from ramledger.report.html.bounded_server import LOOPBACK, BoundedHandler, BoundedServer
from ramledger.report.json.openmetrics import CONTENT_TYPE, openmetrics
from ramledger.run.model import Run
from ramledger.run.time_left import TimeLeft

REFRESH_SECONDS = 1.0
_MAX_SCRAPERS = 8


def parse_address(text: str) -> tuple[str, int]:
    """`:9464` is this machine only; a host before it says where else."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise ConfigError(
            f"{text!r} is not an address", hint=":9464, or 0.0.0.0:9464 for other machines"
        )
    return host.strip("[]") or LOOPBACK, int(port)


class MetricsServer(BoundedServer):
    """Serves one text, which the run's own thread replaces now and then."""

    def __init__(self, address: str) -> None:
        self.text = "# EOF\n"
        self._refreshed_at = float("-inf")
        host, port = parse_address(address)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler, most=_MAX_SCRAPERS)
        except OSError as error:
            raise ConfigError(
                f"cannot listen at {address}: {error.strerror or error}",
                hint="choose another port, or :0 for a free one",
            ) from error
        self.is_local = _is_loopback(host)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}/metrics"

    def refresh(self, run: Run, left: TimeLeft | None) -> None:
        """Called by the thread that feeds the run."""
        now = time.monotonic()
        if now - self._refreshed_at >= REFRESH_SECONDS:
            self._refreshed_at = now
            self.text = openmetrics(run, left)


class _Handler(BoundedHandler):
    server: MetricsServer

    def do_GET(self) -> None:
        if self.server.is_local and not _is_local(self.headers.get("Host", "")):
            self.send_error(
                HTTPStatus.FORBIDDEN
            )  # DNS rebinding: a public name that resolves to us
            return
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = self.server.text.encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # health checks use HEAD


def _is_local(host: str) -> bool:
    """Whether the request names a loopback address, `localhost`, or no host."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name in ("", "localhost") or _is_loopback(name)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
