"""A headless Chromium driven over its DevTools protocol, with the standard library alone.

`Browser` starts one; `Page.run` evaluates JavaScript, `Page.problems` is what the console said.
"""

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_SECONDS = 60.0


class WebSocket:
    """Just enough of RFC 6455 for one local peer that sends whole text messages."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self._socket = socket.create_connection((host, port), timeout=PATIENCE_SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        request = (
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        self._socket.sendall(request.encode())
        self._file = self._socket.makefile("rb")
        while self._file.readline() not in (b"\r\n", b""):
            pass

    def send(self, text: str) -> None:
        data = text.encode()
        mask = os.urandom(4)
        if len(data) < 126:
            head = struct.pack("!BB", 0x81, 0x80 | len(data))
        elif len(data) < 1 << 16:
            head = struct.pack("!BBH", 0x81, 0x80 | 126, len(data))
        else:
            head = struct.pack("!BBQ", 0x81, 0x80 | 127, len(data))
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self._socket.sendall(head + mask + masked)

    def receive(self) -> str:
        parts = []
        while True:
            first, second = self._file.read(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", self._file.read(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self._file.read(8))
            parts.append(self._file.read(length))
            if first & 0x80:
                return b"".join(parts).decode()

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class Page:
    """One tab."""

    def __init__(self, web_socket: WebSocket) -> None:
        self._socket = web_socket
        self._number = 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its answer."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.receive())
            if message.get("id") == self._number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                found: dict[str, Any] = message["result"]
                return found
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, details = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(details["exceptionDetails"])[:800])
        elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.problems.append(details["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning"):
            self.problems.append(json.dumps(details["args"])[:800])
        elif method == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def open(self, url: str) -> None:
        """Go there, and wait until the page is drawn."""
        self.run("window.isOld = true")
        self.call("Page.navigate", url=url)
        self.wait_for(
            "!window.isOld && document.readyState === 'complete'"
            " && !!document.querySelector('footer p')"
        )

    def run(self, script: str) -> Any:
        """The value of an expression, as JSON."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, (script, answer)
        return answer["result"].get("value")

    def _holds(self, script: str) -> bool:
        try:
            return bool(self.run(script))
        except AssertionError as error:
            if "navigated or closed" in str(error):
                return False  # the page is on its way to another one
            raise

    def wait_for(self, script: str) -> None:
        """Until an expression is true."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._holds(script):
            assert time.monotonic() < deadline, (script, self.problems)
            time.sleep(0.05)

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def mouse(self, kind: str, x: float, y: float, modifiers: int = 0) -> None:
        pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, modifiers=modifiers, **pressed)

    def click(self, x: float, y: float, modifiers: int = 0) -> None:
        self.mouse("mouseMoved", x, y, modifiers)
        self.mouse("mousePressed", x, y, modifiers)
        self.mouse("mouseReleased", x, y, modifiers)

    def key(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def open_page() -> Iterator[Page]:
    """A browser of its own with one tab; both are gone afterwards."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        command += ["--disable-dev-shm-usage", "--disable-background-networking", "--mute-audio"]
        command += ["--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            port = _port(Path(folder) / "DevToolsActivePort")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                tabs = json.load(answer)
            tab = next(tab for tab in tabs if tab["type"] == "page")
            path = tab["webSocketDebuggerUrl"].partition(str(port))[2]
            web_socket = WebSocket("127.0.0.1", port, path)
            try:
                yield Page(web_socket)
            finally:
                web_socket.close()
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _port(file: Path) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if file.exists() and (lines := file.read_text().splitlines()):
            return int(lines[0])
        time.sleep(0.05)
    raise AssertionError("Chromium did not start")
