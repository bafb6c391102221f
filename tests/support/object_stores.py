"""Real server processes that speak S3, GCS and Azure, and a wire to them that can be cut.

`make test` installs them into `.venv-servers`; a test whose server is missing is skipped.
"""

import base64
import hashlib
import hmac
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from pathlib import Path

import pytest

from ramledger.measure.known_process import KnownProcess
from tests.support.places import ROOT

SERVERS = Path(os.environ.get("RAMLEDGER_SERVERS", ROOT / ".venv-servers"))

# the account that every emulator of Azure has, by its documentation
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

Environment = dict[str, str]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(program: Path, *arguments: str, port: int) -> Iterator[str]:
    """A server process and its address."""
    if not program.exists():
        pytest.skip(f"{program.name} is not installed: make test does that")
    process = subprocess.Popen(
        [str(program), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    known = KnownProcess.of(process.pid)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while not answers(url):
            assert process.poll() is None and time.monotonic() < deadline, f"no answer from {url}"
            time.sleep(0.1)
        yield url
    finally:
        known.send_to_group(signal.SIGKILL)
        process.wait()


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def moto() -> Iterator[str]:
    port = free_port()
    arguments = ("-H", "127.0.0.1", "-p", str(port))
    with running(SERVERS / "bin" / "moto_server", *arguments, port=port) as url:
        request = urllib.request.Request(f"{url}/runs", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        yield url


def s3_at(url: str) -> Environment:
    return {
        "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing",
    }  # fmt: skip


def gcs_at(url: str) -> Environment:
    """GCS has the requests of S3 too, its XML API, and they are what obstore's GCS client sends."""
    return {"GOOGLE_BASE_URL": url, "GOOGLE_BEARER_TOKEN": "testing"}


@contextmanager
def azurite(folder: Path) -> Iterator[Environment]:
    port = free_port()
    program = SERVERS / "node_modules" / ".bin" / "azurite-blob"
    arguments = ("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder))
    options = ("--silent", "--skipApiVersionCheck", "--disableTelemetry")
    with running(program, *arguments, *options, port=port) as url:
        make_container(url)
        yield {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": url}


def make_container(url: str) -> None:
    date, version = formatdate(usegmt=True), "2021-08-06"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n"
    text += f"/{ACCOUNT}/{ACCOUNT}/runs\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date, "x-ms-version": version, "Content-Length": "0",
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
    }  # fmt: skip
    address = f"{url}/{ACCOUNT}/runs?restype=container"
    request = urllib.request.Request(address, method="PUT", headers=headers)
    urllib.request.urlopen(request, timeout=10).close()


class Wire:
    """Passes bytes on to a server, notes what is put there, and can be cut."""

    def __init__(self, url: str) -> None:
        self._target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.put: list[str] = []  # names of objects, in the order of the requests
        self.to_drop = 0  # so many connections are closed at once
        self.cut_at = ""  # from the first request with this in its line on, nothing passes
        self.is_cut = False
        self._threads = [threading.Thread(target=self._serve)]
        self._ends: list[socket.socket] = []

    def __enter__(self) -> "Wire":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads.pop(0).join()
        _shut(*self._ends)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                self._connect(self._listener.accept()[0])

    def _connect(self, client: socket.socket) -> None:
        if self.is_cut or self.to_drop > 0:
            self.to_drop -= not self.is_cut
            client.close()
            return
        server = socket.create_connection(self._target)
        self._ends += client, server
        for pair in ((client, server, True), (server, client, False)):
            self._threads.append(threading.Thread(target=self._pass, args=pair))
            self._threads[-1].start()

    def _pass(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if is_request:
                    self._note(data)
                if self.is_cut:
                    break
                target.sendall(self._translated(data) if is_request else data)
        _shut(source, target)

    def _translated(self, data: bytes) -> bytes:
        return data

    def _note(self, data: bytes) -> None:
        for line in re.findall(rb"PUT (/[ -~]*) HTTP/1.1\r\n", data):
            name = line.decode().partition("?")[0].rpartition("/")[2].rpartition("%2F")[2]
            self.put.append(name)
            self.is_cut |= bool(self.cut_at) and self.cut_at in name


class GoogleWire(Wire):
    """To a server of S3: says in its words that an object may only be created, not replaced."""

    def _translated(self, data: bytes) -> bytes:
        return data.replace(b"x-goog-if-generation-match: 0\r\n", b"if-none-match: *\r\n")


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
