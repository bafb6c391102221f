"""Whatever a file or a process is called, it cannot steer the terminal that shows it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ramledger.event_codec import decode, decode_header
from ramledger.event_version_1 import upgraded
from ramledger.ledger import printable
from ramledger.recording import RECORDING_SCHEMA
from ramledger.report.terminal.live_view import live_lines
from ramledger.report.terminal.text_layout import cut_middle
from ramledger.run.model import Run
from tests.fuzz.sound_recordings import sound_recordings

COMMAND = Path(sys.executable).with_name("ramledger")
TITLE = "\x1b]0;owned\x07"
HOSTILE = (
    f"{TITLE}\x1b[31m", "\x9b2J", "\x7f\x08\r", "a\nb", "\u202egnp.exe", "\u2066x\u2069",
    "\u200b\u200d\ufeff", "\ud800", "\u2028", "[red]x[/red]", "[link=file:///etc]y[/link]",
)  # fmt: skip
KEPT = ("event", "schema", "source", "origin")  # words of ours: another one is another thing


def hostile(value: Any, key: str = "") -> Any:
    """The same with hostile text in every text."""
    if isinstance(value, str):
        return value if key in KEPT else "".join(HOSTILE) + value
    if isinstance(value, list):
        return [hostile(item, key) for item in value]
    if isinstance(value, dict):
        is_record = key in ("", "statement", "facts", "limit", "host", "accounts", "containers",
                            "large_objects", "tensorflow", "functions", "views", "object_store",
                            "plan", "ram", "loop", "types", "malloc", "largest_arenas",
                            "thread_stacks")  # fmt: skip
        return {
            name if is_record or name.isdecimal() else hostile(name): hostile(item, name)
            for name, item in value.items()
        }
    return value


def ran(arguments: Sequence[str | bytes | Path], **more: Any) -> tuple[int, str]:
    """The code, and everything that it printed, as the bytes that it printed."""
    done = subprocess.run(
        [COMMAND, *arguments], capture_output=True, timeout=120,
        env={**os.environ, "COLUMNS": "400"}, **more,
    )  # fmt: skip
    return done.returncode, (done.stdout + done.stderr).decode()


def check(text: str) -> None:
    found = sorted({c for c in text if not c.isprintable() and c != "\n"})
    assert found == [], found
    assert "Traceback" not in text


@pytest.fixture(params=["marked", "cluster", "tensorflow", "killed"])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    header, *events = sound_recordings()[request.param]
    lines = [hostile(header), *map(hostile, events)]
    assert all(decode(upgraded(line)) is not None for line in lines[1:])
    path = tmp_path / f"{request.param}{TITLE}[red].ledger.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "verb",
    [["diagnose", "--verbose"], ["diagnose", "--json"], ["report", "--terminal"], ["report"],
     ["report", "--json"]],
    ids=" ".join,
)  # fmt: skip
def test_a_hostile_recording(verb: list[str], recording: Path) -> None:
    code, text = ran([*verb, recording])
    assert code in (0, 3)
    check(text)
    if "--json" not in verb:
        assert "\\x1b]0;owned\\x07" in text
        assert "[red]" in text, "markup is text"


def test_two_hostile_recordings_side_by_side(recording: Path) -> None:
    code, text = ran(["diagnose", recording, "--compare", recording])
    assert code in (0, 3)
    check(text)
    assert "[red]" in text, "the name of a file is no markup"


def test_the_live_view_of_a_hostile_run() -> None:
    header, *events = sound_recordings()["marked"]
    run = Run(decode_header(hostile(header))[0])
    for line in events:
        event = decode(upgraded(hostile(line)))
        assert event is not None
        run.take(event)
        check("".join(line.plain for line in live_lines(run, 100)))


@pytest.mark.parametrize("verb", ["diagnose", "report", "serve", "plan", "replay inspect"])
@pytest.mark.parametrize("name", [f"{TITLE}x", "\u202ex", "a\nb", b"\xff\xfe"], ids=repr)
def test_an_error_about_a_hostile_name(verb: str, name: str | bytes, tmp_path: Path) -> None:
    code, text = ran([*verb.split(), name], cwd=tmp_path)
    assert code != 0
    check(text)


def test_an_error_that_quotes_the_header(tmp_path: Path) -> None:
    path = tmp_path / "run.ledger.jsonl"
    path.write_text(json.dumps({"schema": "ramledger.recording/" + "".join(HOSTILE)}) + "\n")
    for verb in (["diagnose"], ["report"], ["report", "--terminal"], ["serve"]):
        code, text = ran([*verb, path])
        assert code == 1
        check(text)


def test_an_argument_that_is_refused() -> None:
    code, text = ran(["diagnose", "x", f"--{TITLE}"])
    assert code == 2
    check(text)


def test_a_file_whose_name_is_no_utf_8_has_a_page(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.ledger.jsonl"
    with open(path, "w") as file:
        file.write(json.dumps({"schema": RECORDING_SCHEMA}) + "\n")
    code, text = ran(["report", path])
    assert code == 0
    check(text)


def test_a_process_with_a_hostile_name(tmp_path: Path) -> None:
    name = "".join(c for c in "".join(HOSTILE) if c != "\ud800")
    code = "import time; print('ready', flush=True); time.sleep(100)"
    with subprocess.Popen(
        [name, "-c", code, name], executable=sys.executable, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            for verb in (["watch", "--once"], ["explain"], ["explain", "--tree"]):
                done, text = ran([*verb, str(process.pid)])
                assert done == 0
                check(text)
        finally:
            process.kill()


PROGRAM = """
import sys, ramledger
hostile = sys.argv[1]
ledger = ramledger.record()
for generation in range(3):
    with ledger.phase(hostile, generation=generation):
        held = bytearray(1 << 20)
ledger.snapshot(hostile)
"""


@pytest.mark.parametrize("options", [["--plain"], ["--quiet"], ["--json"]], ids=str)
def test_a_run_with_hostile_arguments_and_phases(options: list[str], tmp_path: Path) -> None:
    name = "".join(c for c in "".join(HOSTILE) if c != "\ud800")
    out = tmp_path / f"{TITLE}.ledger.jsonl"
    command = [sys.executable, "-c", PROGRAM, name]
    code, text = ran(["run", *options, "--out", out, "--", *command])
    assert code == 0, text
    check(text)


def test_every_character_that_is_not_shown_is_escaped() -> None:
    for number in range(sys.maxunicode + 1):
        shown = printable(chr(number))
        assert shown.isprintable()
        assert shown == chr(number) or (shown.startswith("\\") and shown.isascii())


def test_a_long_name_is_cut_in_linear_time() -> None:
    short, long = "x" * 20_000, "x" * 200_000
    for text in (short, long):
        assert cut_middle(text, 40) == "x" * 13 + "…" + "x" * 26
    wide = cut_middle("界" * 1000, 41)
    assert wide == "界" * 6 + " …" + "界" * 13
    times = []
    for text in (short, long):
        started = time.process_time()
        for _ in range(5):
            cut_middle(text, 40)
        times.append(time.process_time() - started)
    # ten times as long: a quadratic way would take a hundred times as long
    assert times[1] < 40 * max(times[0], 1e-3)


def test_a_phase_name_of_100_000_characters_costs_no_more_than_another(tmp_path: Path) -> None:
    header, *events = sound_recordings()["marked"]
    for event in events:
        if event["event"] == "phase":
            event["name"] *= 20_000
    path = tmp_path / "run.ledger.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, *events)))
    code, text = ran(["report", "--terminal", path])
    assert code == 0
    assert max(map(len, text.splitlines())) <= 450
