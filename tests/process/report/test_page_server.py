"""The served page: for whoever has the address, from its own page only, and alive."""

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ramledger.events import Event
from ramledger.report.html.page_server import PageServer
from tests.support.chromium import CHROMIUM, open_page
from tests.support.report_events import MIB, in_time_order, leaking_run, lines_of, run_end, sample

EVENTS = in_time_order(leaking_run(12))
HALF = len(EVENTS) // 2


def append(path: Path, events: Sequence[Event]) -> None:
    with path.open("a") as file:
        file.write(lines_of(events, None))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "train.ledger.jsonl"
    path.write_text(lines_of([]))
    append(path, EVENTS[:HALF])
    return path


@pytest.fixture
def server(recording: Path) -> Iterator[PageServer]:
    with PageServer([str(recording)]) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(
    server: PageServer,
    name: str = "",
    *,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
    token: str | None = None,
) -> tuple[int, Mapping[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=100)
    path = f"/{server.token if token is None else token}/{name}"
    connection.request(method, path, headers=dict(headers or {}))
    answer = connection.getresponse()
    found = answer.status, dict(answer.headers), answer.read().decode()
    connection.close()
    return found


def test_the_page_and_its_data_are_there(server: PageServer) -> None:
    status, headers, text = ask(server)
    assert status == 200
    assert "connect-src 'self'" in text
    assert headers["Cache-Control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    status, headers, text = ask(server, "data")
    assert json.loads(text)["runs"][0]["recording"] == "train.ledger.jsonl"
    assert ask(server, "data", headers={"If-None-Match": headers["ETag"]})[0] == 304


def test_only_loopback_listens(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 20


@pytest.mark.parametrize("token", ["", "x", "x" * 24, "%2e%2e", "é"])
def test_without_the_token_there_is_nothing(server: PageServer, token: str) -> None:
    assert ask(server, "data", token=token.encode().hex() if token == "é" else token)[0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_no_page_of_the_web_can_ask(server: PageServer, headers: dict[str, str]) -> None:
    status, _, text = ask(server, "data", headers=headers)
    assert status == 403
    assert "train" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_can_only_be_read(server: PageServer, recording: Path, method: str) -> None:
    before = recording.read_bytes()
    assert ask(server, "data", method=method)[0] == 501
    assert recording.read_bytes() == before


def test_a_stretch_in_detail(server: PageServer) -> None:
    status, _, text = ask(server, "detail?run=0&from=2&to=6")
    assert status == 200
    assert json.loads(text)["t"] == [2 + 0.5 * n for n in range(9)]
    for query in ("run=1&from=2&to=6", "run=0&from=x&to=6", "run=-1&from=0&to=1", ""):
        assert ask(server, f"detail?{query}")[0] == 400
    assert ask(server, "../../etc/passwd")[0] == 404


def test_what_is_appended_arrives(server: PageServer, recording: Path) -> None:
    before = json.loads(ask(server, "data")[2])["runs"][0]["seconds"]
    append(recording, EVENTS[HALF:])
    deadline = time.monotonic() + 60
    while (after := json.loads(ask(server, "data")[2])["runs"][0]["seconds"]) == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert after == pytest.approx(EVENTS[-1].t, abs=0.01)


def test_a_recording_that_was_deleted_leaves_what_was_seen(
    server: PageServer, recording: Path
) -> None:
    server.live._next_reading = 0.0
    recording.unlink()
    assert ask(server, "data")[0] == 500
    server.live._next_reading = time.monotonic() + 600
    assert ask(server, "data")[0] == 200


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_page_follows_the_run(server: PageServer, recording: Path) -> None:
    peak = "document.querySelector('.facts dd').textContent"
    with open_page() as page:
        page.resize(1280, 900)
        page.open(server.url)
        before = page.run(peak)
        append(recording, EVENTS[HALF:])
        page.wait_for(f"{peak} !== {json.dumps(before)}")
        rss = page.run("+document.querySelector('#statement tfoot tr').dataset.rss")
        rows = page.run(
            "[...document.querySelectorAll('#statement tbody tr')].map(r => +r.dataset.bytes)"
        )
        assert rss == sum(rows) == (130 + 12 * 16) * MIB
        end = run_end(60.0)
        append(recording, [end])
        page.wait_for("document.querySelector('.status').textContent === 'the run is over'")
        assert page.problems == []
        assert all(
            url.startswith((server.url, "data:")) or url == "about:blank" for url in page.requests
        )


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_zooming_brings_full_detail(tmp_path: Path) -> None:
    path = tmp_path / "long.ledger.jsonl"
    path.write_text(lines_of([]))
    append(path, [sample(float(t), {7: 100 * MIB + 4096 * (t % 50)}) for t in range(20_000)])
    points = "document.querySelector('.total').getAttribute('d').split('L').length"
    with PageServer([str(path)]) as server, open_page() as page:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            page.resize(1280, 900)
            page.open(server.url)
            coarse = page.run(points)
            page.run("document.querySelector('.chart').focus()")
            for _ in range(5):
                page.key("+")
            # 1/32 of the run is some 40 of the points there were, and 312 of the samples
            page.wait_for(f"{points} > 250")
            assert coarse > 1000
            assert page.problems == []
        finally:
            server.shutdown()
            thread.join()
