"""`ramledger diagnose` on recordings that are odd or bad: a clear answer or a clear error."""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ramledger.event_encoding import encode
from ramledger.events import Event, ProcessEvent, RunEndEvent
from ramledger.recording import RECORDING_SCHEMA
from tests.support.made_up_recordings import PID, generations, phases, sample, snapshot

COMMAND = Path(sys.executable).with_name("ramledger")
HEADER = {"schema": RECORDING_SCHEMA, "command": ["train.py"]}
RISING = [100 + 6 * i for i in range(14)]


def written(path: Path, events: Iterable[Event | dict[str, Any]]) -> Path:
    """A file of these events; of odd ones as they are."""
    lines = (encode(event) if isinstance(event, Event) else event for event in events)
    path.write_text("".join(json.dumps(line) + "\n" for line in (HEADER, *lines)))
    return path


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [COMMAND, "diagnose", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def verdict(*arguments: object) -> str:
    done = run("--json", *arguments)
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert done.returncode == (3 if document["verdict"] == "leak" else 0)
    return str(document["verdict"])


@pytest.mark.parametrize(
    "content",
    [
        "",
        "hello\n",
        '{"schema": "ramledger.recording/99"}\n',
        '{"schema": "something/else"}\n',
        "\0\0\0\0",
    ],
    ids=["empty", "foreign", "future", "other schema", "binary"],
)
def test_what_is_no_recording_is_an_error_with_a_hint(tmp_path: Path, content: str) -> None:
    path = tmp_path / "run.ledger.jsonl"
    path.write_text(content)
    done = run(path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert str(path.name) in done.stderr.replace("\n", "")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path / "none.ledger.jsonl")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_torn_last_line_is_dropped_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "run.ledger.jsonl", generations(RISING))
    path.write_text(path.read_text() + '{"event": "generation", "pi')
    done = run("--json", path)
    document = json.loads(done.stdout)
    assert document["verdict"] == "leak"
    assert document["notes"]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_too_few_generations_are_undecided_and_say_what_would_decide(
    tmp_path: Path, count: int
) -> None:
    path = written(tmp_path / "run.ledger.jsonl", generations([100.0] * count))
    done = run("--json", path)
    document = json.loads(done.stdout)
    assert document["verdict"] == "undecided"
    assert "more" in document["reason"]
    assert done.returncode == 0


def test_a_run_killed_at_once_is_undecided(tmp_path: Path) -> None:
    process = ProcessEvent(t=0.0, pid=PID, command="train.py")
    end = RunEndEvent(t=0.1, signal=9)
    assert verdict(written(tmp_path / "run.ledger.jsonl", [process, end])) == "undecided"


def test_phases_that_never_repeat_do_not_disturb(tmp_path: Path) -> None:
    parts = [replace(phase, name=f"part {i}") for i, phase in enumerate(phases({"x": [6.0] * 14}))]
    path = written(tmp_path / "run.ledger.jsonl", [*generations(RISING), *parts])
    assert verdict(path) == "leak"


def test_a_clock_that_goes_backwards_gives_an_answer(tmp_path: Path) -> None:
    events = [
        replace(event, t=50.0 - i if i > 6 else float(i))
        for i, event in enumerate(generations(RISING))
    ]
    assert verdict(written(tmp_path / "run.ledger.jsonl", events)) == "leak"


def test_a_day_of_samples_is_judged_in_seconds(tmp_path: Path) -> None:
    samples = (sample(i * 0.5, {PID: 100}) for i in range(60_000))
    levels = [100 + 0.1 * i for i in range(3000)]
    path = written(tmp_path / "run.ledger.jsonl", [*generations(levels), *samples])
    assert verdict(path) == "leak"


def test_odd_numbers_in_events_are_no_crash(tmp_path: Path) -> None:
    events = [encode(event) for event in generations(RISING)]
    events[3]["anon_bytes"] = "many"
    events[4]["generation"] = "four"
    events += [{"event": "snapshot", "pid": PID, "t": 3.0, "statement": 5}]
    events += [{"event": "sample", "t": 2.0, "processes": [1, 2]}]
    done = run("--json", written(tmp_path / "run.ledger.jsonl", events))
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "leak"
    assert document["notes"] == ["4 malformed events were ignored"]


def test_since_judges_the_rest_only(tmp_path: Path) -> None:
    levels = [100 + 10 * min(i, 12) for i in range(30)]
    path = written(tmp_path / "run.ledger.jsonl", generations(levels))
    assert verdict("--since", 13, path) == "healthy"


def test_the_fix_is_compared_with_before(tmp_path: Path) -> None:
    before = written(tmp_path / "before.ledger.jsonl", generations(RISING))
    after = written(tmp_path / "after.ledger.jsonl", generations([100.0] * 14))
    done = run("--json", after, "--compare", before)
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert (document["this"]["verdict"], document["other"]["verdict"]) == ("healthy", "leak")
    text = run(after, "--compare", before).stdout
    assert "healthy" in text
    assert "leak" in text


def test_the_document_keeps_its_contract(tmp_path: Path) -> None:
    events = [*generations(RISING), *phases({"learn": [6.0] * 14})]
    document = json.loads(run("--json", written(tmp_path / "r.ledger.jsonl", events)).stdout)
    assert document["schema"] == "ramledger.diagnosis/1"
    assert document["generations"] == 14
    leak = document["findings"][0]
    assert leak["kind"] == "leak"
    assert leak["phase"] == "learn"
    assert leak["bytes_per_generation"] == pytest.approx(6 << 20, rel=0.05)
    assert {"cause", "culprit", "onset_generation", "confidence", "evidence", "advice"} <= set(leak)
    assert set(leak["culprit"]) == {"type", "path"}


def test_the_text_can_be_pasted(tmp_path: Path) -> None:
    end = RunEndEvent(t=60.0, exit_code=0)
    path = written(tmp_path / "run.ledger.jsonl", [*generations(RISING), end])
    done = run(path)
    assert done.returncode == 3
    assert done.stdout.startswith("leak")
    for word in ("6.0 MiB an iteration", "since iteration 0", "% sure"):
        assert word in done.stdout


def test_a_comparison_says_whether_the_fix_worked(tmp_path: Path) -> None:
    before = written(tmp_path / "before.ledger.jsonl", generations(RISING))
    after = written(tmp_path / "after.ledger.jsonl", generations([100.0] * 14))
    assert "the leak is gone: 6.0 MiB" in run(after, "--compare", before).stdout
    assert "it still leaks" in run(before, "--compare", before).stdout
    assert "it leaks now" in run(before, "--compare", after).stdout


def test_verbose_attaches_the_growth_table(tmp_path: Path) -> None:
    snapshots = [snapshot(g, {"variables/train.py:log": 6.0 * g}) for g in (1, 5, 9, 13)]
    path = written(tmp_path / "run.ledger.jsonl", [*generations(RISING), *snapshots])
    assert "account" not in run(path).stdout.splitlines()
    text = run("--verbose", path).stdout
    assert "variables/train.py:log" in text
    # from the first snapshot, a tenth of a generation after the end of generation 1, to the last
    assert "RSS grew 71.4 MiB from iteration 1 to 13" in text
    rss = next(line.split() for line in text.splitlines() if line.startswith("RSS  "))
    assert rss[1:5] == ["+71.4", "MiB", "+6.0", "MiB"]


def test_the_report_says_who_is_responsible(tmp_path: Path) -> None:
    snapshots = [snapshot(g, {"variables/train.py:log": 6.0 * g}) for g in (1, 5, 9, 13)]
    path = written(tmp_path / "run.ledger.jsonl", [*generations(RISING), *snapshots])
    leak = json.loads(run("--json", path).stdout)["findings"][0]
    assert leak["fault"] == "your code"
    assert leak["per"] == "generation"
    assert "your code" in run(path).stdout
