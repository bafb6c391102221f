"""The data of the page: exact where it says so, bounded however long the run, calm about damage."""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ramledger.diagnose.verdict import diagnose
from ramledger.events import Event, RemedyEvent
from ramledger.report.html.page import page_html
from ramledger.report.html.page_data import page_data, page_documents
from ramledger.report.html.page_series import MAX_POINTS
from ramledger.run.model import Run
from tests.support.report_events import (
    MIB,
    PID,
    doubled_buffer,
    leaking_run,
    lines_of,
    recorded,
    run_end,
    sample,
    snapshot,
    statement,
    with_growth,
)

END = run_end()


def page_of(events: Iterable[Event]) -> dict[str, Any]:
    run = recorded(events)
    return page_data(run, diagnose(run))


def test_every_snapshot_sums_to_its_rss() -> None:
    page = page_of([*leaking_run(), END])
    assert len(page["snapshots"]) == 10
    for number, look in enumerate(page["snapshots"]):
        booked = sum(row[1] for row in look["accounts"])
        assert booked + look["unexplained"] == look["rss"] == (116 + 16 * number) * MIB
        assert look["unexplained"] == 20 * MIB


def test_samples_of_a_short_run_are_all_there_to_the_byte() -> None:
    page = page_of([*leaking_run(), END])
    series = page["series"]
    assert len(series["t"]) == 80
    # the workers hold 30 MiB, and nothing is shared
    assert [a - b for a, b in zip(series["level"], series["main"], strict=True)] == [30 * MIB] * 80
    assert series["processes"][str(PID + 1)] == {"from": 0, "bytes": [20 * MIB] * 80}
    assert page["main_pid"] == PID


def test_growth_is_in_the_cell_of_its_generation_and_phase() -> None:
    heat = page_of(map(with_growth, leaking_run()))["growth"]["heat"]
    assert heat["kind"] == "phases"
    assert heat["rows"] == ["evaluate", "train"]
    assert heat["cells"] == [[16 * MIB] * 10, [0] * 10]


def test_the_verdict_and_what_was_expected_are_there() -> None:
    page = page_of([*leaking_run(), END])
    assert page["verdict"]["verdict"] == "leak"
    assert page["expectations"][0]["expected"] == 2
    assert page["is_over"]
    # 1024 MiB, less 290 in use, at 16 MiB in 4 seconds
    assert page["outlook"]["seconds_left"] == pytest.approx(4 * (1024 - 290) / 16, rel=0.1)


def test_a_run_that_goes_on_has_a_forecast_from_its_level() -> None:
    page = page_of(leaking_run(20))
    assert not page["is_over"]
    assert page["outlook"]["from_bytes"] == page["series"]["level"][-1]
    assert page["outlook"]["seconds_left"] == pytest.approx(4 * (1024 - 450) / 16, rel=0.25)


def test_variables_seen_by_index_are_one_account() -> None:
    events: list[Event] = [sample(0.5 * t, {PID: 100 * MIB}) for t in range(10)]
    parts = {f"variables/run.log[{n}]": MIB for n in range(5)}
    events.append(snapshot(1.0, statement(parts, rss_bytes=100 * MIB)))
    events.append(snapshot(4.0, statement({"variables/run.log": 9 * MIB}, rss_bytes=100 * MIB)))
    page = page_of(events)
    first, last = page["snapshots"]
    assert [page["names"][row[0]] for row in first["accounts"]] == ["variables/run.log"]
    assert (first["accounts"][0][1], last["accounts"][0][1]) == (5 * MIB, 9 * MIB)


def test_the_users_classes_come_first_and_machinery_never() -> None:
    counts = {"dict": 9000, "inspect.Parameter": 800, "torch.Tensor": 70, "t.Env": 2, "t.Row": 500}
    events: list[Event] = [sample(0.5 * t, {PID: 100 * MIB}) for t in range(10)]
    events.append(
        snapshot(
            1.0, statement({}, rss_bytes=100 * MIB), live_objects=counts,
            user_classes=("t.Row", "t.Env"),
        )
    )  # fmt: skip
    page = page_of(events)
    (look,) = page["snapshots"]
    for field in ("counts", "types"):
        names = [page["names"][row[0]] for row in look[field]]
        assert names == ["t.Env", "t.Row", "torch.Tensor", "dict"]
    assert "inspect.Parameter" not in page["names"]


def test_a_long_rise_keeps_its_shape_and_its_end() -> None:
    count = 20_000
    events = [sample(float(t), {PID: 100 * MIB + 4096 * t}) for t in range(count)]
    series = page_data(recorded(events), None)["series"]
    assert MAX_POINTS / 2 < len(series["t"]) <= MAX_POINTS + 1
    assert series["t"][-1] == count - 1
    gaps = [b - a for a, b in pairwise(series["t"])]
    assert max(gaps) < 4 * count / MAX_POINTS
    assert all(b == 100 * MIB + 4096 * t for t, b in zip(series["t"], series["level"], strict=True))


# ---- damage ------------------------------------------------------------------------------------

HOSTILE: list[dict[str, Any]] = [
    {"event": "sample", "t": 1.0, "processes": {"x": [1, 2]}},
    {"event": "sample", "t": 1.0, "processes": None},
    {"event": "snapshot", "t": 1.0, "pid": PID, "statement": {"schema": "ramledger.statement/1"}},
    {"event": "snapshot", "t": 1.0, "pid": PID, "statement": None},
    {"event": "generation", "t": 1.0, "pid": PID, "generation": 10**30, "rss_bytes": 5},
    {"event": "expectation", "t": 1.0, "pid": PID, "type": "A", "expected": "x", "found": []},
    {"event": "function-growth", "t": 1.0, "pid": PID, "growth_bytes": [1]},
    {"event": "run-end", "t": 1.0, "exit_code": "x", "signal": "y"},
]


@pytest.mark.parametrize("event", HOSTILE, ids=lambda event: str(event)[:50])
def test_a_damaged_event_costs_no_more_than_itself(event: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "damaged.ledger.jsonl"
    run = list(leaking_run())
    damaged = json.dumps(event) + "\n"
    path.write_text(lines_of(run[:40]) + damaged + lines_of(run[40:], None))
    page = page_data(Run.read(str(path)), None)
    assert "1 malformed event was ignored" in page["notes"]
    assert len(page["series"]["t"]) >= 80
    assert len(page["snapshots"]) == 10
    json.loads(json.dumps(page))


def test_an_empty_recording_has_a_page() -> None:
    page = page_of([])
    assert page["series"]["t"] == []
    assert "<title>" in page_html([page])


def test_advice_has_its_saving_and_its_command() -> None:
    page = page_of([*doubled_buffer(), END])
    (advice,) = page["advice"]
    assert (advice["apply"], advice["saves_bytes"]) == ("replay", 80 * MIB)
    command = "ramledger run --apply replay -- python train.py --seed 3"
    assert page["commands"] == {"replay": command}


def test_what_remedies_did_is_on_the_page() -> None:
    said = RemedyEvent(t=0.2, pid=PID, name="replay", text="stored once", saves_bytes=80 * MIB)
    page = page_of([*doubled_buffer(), said, END])
    (remedy,) = page["remedies"]["each"]
    assert remedy["line"] == "replay: stored once, promised 80.0 MiB"
    assert page["remedies"]["compared"] == []
    # what is in force is not advised
    assert (page["advice"][0]["apply"], page["commands"]) == (None, {})
    assert page_of([*doubled_buffer(), END])["remedies"] is None


def test_of_two_runs_the_second_is_measured_against_the_first() -> None:
    said = RemedyEvent(t=0.2, pid=PID, name="replay", text="stored once")
    runs = [[*doubled_buffer(400 * MIB), END], [*doubled_buffer(), said, END]]
    documents = page_documents([recorded(events) for events in runs])
    line = "measured: peak 400.0 MiB → 200.0 MiB, 50% less than train.ledger.jsonl"
    assert documents[0]["remedies"] is None
    assert documents[1]["remedies"]["compared"] == [line]
