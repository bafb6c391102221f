"""`ramledger report` on files: the page, the document, the terminal, and what it refuses."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ramledger.cli.main import main
from tests.support.report_events import in_time_order, leaking_run, lines_of


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return written(tmp_path / "train.ledger.jsonl")


def written(path: Path, *, generations: int = 10) -> Path:
    path.write_text(lines_of(in_time_order(leaking_run(generations))))
    return path


def report(*arguments: object) -> int:
    return main(["report", *map(str, arguments)])


def test_the_page_lies_beside_the_recording(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(recording) == 0
    page = recording.parent / "train.html"
    assert str(page) in capsys.readouterr().out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    # a page of ours is replaced, and no half of one is left
    assert report(recording) == 0
    assert {path.name for path in recording.parent.iterdir()} == {
        "train.ledger.jsonl",
        "train.html",
    }


def test_a_file_of_somebody_else_is_not_overwritten(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = recording.parent / "thesis.html"
    mine.write_text("years of work")
    assert report(recording, "-o", mine) == 1
    assert "--force" in capsys.readouterr().err
    assert mine.read_text() == "years of work"
    assert report(recording, "-o", mine, "--force") == 0
    assert "ramledger" in mine.read_text(encoding="utf-8")


def test_two_recordings_are_one_page(recording: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "fixed.ledger.jsonl", generations=7)
    out = tmp_path / "both.html"
    assert report(recording, other, "-o", out) == 0
    text = out.read_text(encoding="utf-8")
    assert "train.ledger.jsonl" in text
    assert "fixed.ledger.jsonl" in text


def test_the_data_as_a_document(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(recording, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ramledger.page/1"
    assert document["verdict"]["verdict"] == "leak"


@pytest.mark.parametrize("columns", ["60", "120"])
def test_the_terminal_shows_verdict_trend_and_heat_map(
    recording: Path,
    columns: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert report(recording, "--terminal") == 0
    text = capsys.readouterr().out
    assert "recording stops here" in text.partition("leak")[0]
    assert "\nleak  more and more TradingEnvironment objects" in text
    assert "memory over time" in text
    assert "where it grew, by iteration" in text
    assert "TradingEnvironment" in text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["missing.ledger.jsonl"], 1), ([], 2), (["a", "b", "c"], 1)],
)
def test_what_it_cannot_do_it_says(
    arguments: Sequence[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(*arguments) == code
    assert "hint:" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_an_error(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(recording, "-o", recording.parent / "no" / "such" / "page.html") == 1
    assert "cannot write" in capsys.readouterr().err


def test_open_shows_the_page_in_the_browser_that_is_set(
    recording: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {asked}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setattr("webbrowser._tryorder", None)  # it is read once a process
    assert report(recording, "--open") == 0
    assert asked.read_text() == (tmp_path / "train.html").as_uri()


def test_without_a_browser_it_says_where_the_page_is(
    recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("webbrowser._tryorder", [])
    assert report(recording, "--open") == 0
    shown = capsys.readouterr()
    assert str(recording.parent / "train.html") in shown.out
    assert str(recording.parent / "train.html") in shown.err


@pytest.mark.parametrize("other", ["--json", "--terminal"])
def test_what_is_no_page_is_not_opened(recording: Path, other: str) -> None:
    assert report(recording, "--open", other) == 1
    assert not (recording.parent / "train.html").exists()
