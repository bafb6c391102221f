"""`ramledger serve` and `ramledger run --serve` as processes: the address, the end."""

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.report_events import leaking_run, lines_of

RAMLEDGER = [sys.executable, "-m", "ramledger"]
ASKS = """
import json, sys, time, urllib.request
deadline = time.monotonic() + 60
while True:
    text = open(sys.argv[1]).read()
    if "http://" in text:
        url = text[text.index("http://"):].split()[0]
        runs = json.load(urllib.request.urlopen(url + "data"))["runs"]
        if runs[0]["series"]["t"]:
            break
    assert time.monotonic() < deadline
    time.sleep(0.1)
print("the page knows", runs[0]["recording"], flush=True)
"""


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "train.ledger.jsonl"
    path.write_text(lines_of(leaking_run()))
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_ends_when_told_to(recording: Path, number: int) -> None:
    with subprocess.Popen(
        [*RAMLEDGER, "serve", recording], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", url)
        with urllib.request.urlopen(url) as answer:
            assert b"ramledger" in answer.read()
        process.send_signal(number)
        process.wait(60)
        assert process.returncode == (0 if number == signal.SIGINT else -number)


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    done = subprocess.run([*RAMLEDGER, "serve", path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "not a ramledger recording" in done.stderr


def test_a_run_shows_its_page_while_it_goes_on(tmp_path: Path) -> None:
    said = tmp_path / "stderr.txt"
    command = [*RAMLEDGER, "run", "--serve", "--plain", "--out", "train.ledger.jsonl", "--"]
    with said.open("w") as stderr:
        done = subprocess.run(
            [*command, sys.executable, "-c", ASKS, said],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=tmp_path,
            timeout=120,
        )
    assert done.returncode == 0, said.read_text()
    assert done.stdout == "the page knows train.ledger.jsonl\n"
    assert "live page: http://127.0.0.1:" in said.read_text()
