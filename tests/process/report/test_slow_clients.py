"""Clients that hold their connection and say or take as little as they can: others are answered."""

import http.client
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ramledger.cli.metrics_endpoint import MetricsServer
from ramledger.report.html import bounded_server
from ramledger.report.html.bounded_server import MAX_HEAD_BYTES, BoundedServer
from ramledger.report.html.page_server import MAX_VIEWERS, PageServer
from tests.support.report_events import in_time_order, leaking_run, lines_of
from tests.support.waiting import wait_until

SECONDS = 60  # a hang is seen, a busy machine is not
ASKED = b"GET / HTTP/1.1\r\nHost: x\r\n"

# what each says at once, and what it goes on to say, a piece at a time, for ever
KINDS = {
    "silent": (b"", b""),
    "byte by byte": (b"G", b"E"),
    "no end of line": (b"GET /", b"a" * 100),
    "no end of the head": (ASKED, b"X-More: 1\r\n"),
    "a body without an end": (b"POST / HTTP/1.1\r\nContent-Length: 999999999\r\n", b"X: 1\r\n"),
    "a huge header": (ASKED + b"X: ", b"y" * 4096),
    "many headers": (ASKED, b"X: y\r\n" * 60),
}


class Crowd:
    """Connections that are kept, each fed with a little now and then by one thread."""

    def __init__(self, port: int, kinds: list[str]) -> None:
        self._feeds = [KINDS[kind][1] for kind in kinds]
        self.sockets = [socket.create_connection(("127.0.0.1", port), SECONDS) for _ in kinds]
        for client, kind in zip(self.sockets, kinds, strict=True):
            client.sendall(KINDS[kind][0])
            client.setblocking(False)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._feed)
        self._thread.start()

    def _feed(self) -> None:
        while not self._is_over.wait(0.05):
            for client, more in zip(self.sockets, self._feeds, strict=True):
                with suppress(OSError):
                    client.send(more)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        for client in self.sockets:
            client.close()


@pytest.fixture
def crowd() -> Iterator[Callable[[int, list[str]], Crowd]]:
    found: list[Crowd] = []

    def gather(port: int, kinds: list[str]) -> Crowd:
        found.append(Crowd(port, kinds))
        return found[-1]

    yield gather
    for one in found:
        one.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    path = tmp_path / "train.ledger.jsonl"
    path.write_text(lines_of(in_time_order(leaking_run(12))))
    with PageServer([str(path)]) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def get(port: int, path: str, host: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    assert not [name for name, _ in answer.getheaders() if name.lower().startswith("access-")]
    found = answer.status, answer.read().decode()
    connection.close()
    return found


@pytest.mark.parametrize("kind", [*KINDS, "all of them"])
def test_a_viewer_is_answered_while_slow_ones_hang(
    server: PageServer, crowd: Callable[[int, list[str]], Crowd], kind: str
) -> None:
    kinds = [kind] * 48 if kind in KINDS else (list(KINDS) * 8)[:48]
    assert len(kinds) > MAX_VIEWERS
    crowd(server.port, kinds)
    for _ in range(5):
        assert get(server.port, f"/{server.token}/data")[0] == 200


def test_a_scraper_is_answered_while_slow_ones_hang(
    crowd: Callable[[int, list[str]], Crowd],
) -> None:
    with MetricsServer(":0") as server:
        port = int(server.server_address[1])
        crowd(port, (list(KINDS) * 8)[:48])
        for _ in range(5):
            assert get(port, "/metrics") == (200, "# EOF\n")
        server.shutdown()


def test_half_closed_and_pipelined(server: PageServer) -> None:
    """What can be answered is; one request a connection."""
    request = f"GET /{server.token}/data HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
    for words, answers in ((request, 1), (request * 5, 1), (request[:20], 0)):
        with socket.create_connection(("127.0.0.1", server.port), SECONDS) as client:
            client.sendall(words)
            client.shutdown(socket.SHUT_WR)
            received = bytearray()
            with suppress(ConnectionResetError):  # of what was said beyond the first request
                while part := client.recv(1 << 16):
                    received += part
        assert received.count(b" 200 OK\r\n") == answers
    assert get(server.port, f"/{server.token}/data")[0] == 200


def test_one_that_never_reads_its_answer_holds_a_place_and_no_more(server: PageServer) -> None:
    request = f"GET /{server.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
    clients = []
    for _ in range(MAX_VIEWERS - 2):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(request)
        clients.append(client)
    for _ in range(3):
        assert get(server.port, f"/{server.token}/data")[0] == 200
    for client in clients:
        client.close()


def hung_up(client: socket.socket) -> bool:
    client.settimeout(SECONDS)
    with suppress(ConnectionResetError):
        while client.recv(1 << 16):
            pass
    return True


def test_a_request_has_a_deadline_that_single_bytes_do_not_put_off(
    server: PageServer,
    crowd: Callable[[int, list[str]], Crowd],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_server, "HEAD_SECONDS", 0.2)
    slow = crowd(server.port, ["byte by byte", "no end of the head", "silent"])
    assert all(map(hung_up, slow.sockets))


def test_an_answer_has_a_deadline(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(server, "finish_request", lambda asked, _: _ask_for_ever(server, asked))
    with socket.create_connection(("127.0.0.1", server.port), SECONDS) as client:
        assert hung_up(client)


def _ask_for_ever(server: BoundedServer, request: socket.socket) -> None:
    """An answer whose reader does not read."""
    server.has_asked(request)
    with suppress(OSError):
        request.recv(1)


def test_a_head_is_of_bounded_length(server: PageServer) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for head in (b"GET /" + b"a" * (64 << 20), ASKED + b"X: yyyyyyyy\r\n" * (4 << 20)):
        with socket.create_connection(("127.0.0.1", server.port), SECONDS) as client:
            with suppress(OSError):  # it hangs up while we speak
                client.sendall(head)
            answer = b""
            with suppress(OSError):
                answer = client.recv(100)
            assert b"200" not in answer
        del head
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < (300 << 20) + MAX_HEAD_BYTES  # what this test itself holds
    assert get(server.port, f"/{server.token}/data")[0] == 200


@pytest.mark.parametrize(
    ("host", "code"),
    [("127.0.0.1:9", 200), ("localhost:9464", 200), ("[::1]:1", 200), ("evil.example", 403),
     ("127.0.0.1.evil.example:9464", 403), ("[", 403)],
)  # fmt: skip
def test_metrics_of_this_machine_are_not_for_names_of_the_web(host: str, code: int) -> None:
    with MetricsServer(":0") as server:
        port = int(server.server_address[1])
        assert get(port, "/metrics", host)[0] == code
        server.shutdown()


def test_it_goes_on_when_descriptors_run_out(
    server: PageServer, crowd: Callable[[int, list[str]], Crowd]
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = crowd(server.port, ["silent"] * 10)
    wait_until(lambda: len(server._connections) >= 10)
    used = max(client.fileno() for client in found.sockets) + 12
    more: list[socket.socket] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, before[1]))
        with suppress(OSError):
            for _ in range(40):
                more.append(socket.create_connection(("127.0.0.1", server.port)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for client in more:
            client.close()
    assert more
    assert get(server.port, f"/{server.token}/data")[0] == 200
