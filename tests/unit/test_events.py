"""The one decoder: what is declared comes through, everything else is left out or malformed."""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ramledger.event_codec import (
    MAX_ROWS,
    MAX_TEXT,
    MalformedEventError,
    decode,
    plain,
    plain_header,
)
from ramledger.event_parts import EntryPart
from ramledger.events import EVENTS, EndEvent, PhaseEvent, SampleEvent, SnapshotEvent
from ramledger.recording import RECORDING_SCHEMA, Recording
from tests.fuzz.sound_recordings import sound_recordings
from tests.support.long_run import long_run
from tests.support.places import ROOT

LEFT_OUT = {"named_fraction", "owned_fraction", "children"}  # derived from the rest, or empty
NEVER_RECORDED = {"now", "room"}  # for those who watch, while it is true

PHASE = {"event": "phase", "t": 1.0, "pid": 7, "name": "train"}
SAMPLE = {"event": "sample", "t": 1.0, "processes": {"7": [1, 2, 3, 4, 5]}}
END = {"event": "end", "t": 1.0}
ENTRY = {"account": "a", "resident_bytes": 5, "reserved_bytes": 5, "source": "path"}
STATEMENT = {
    "schema": "ramledger.statement/1", "pid": 7, "command": "x", "at": 1.0, "rss_bytes": 9,
    "accounts": [ENTRY],
}  # fmt: skip
SNAPSHOT = {"event": "snapshot", "t": 1.0, "pid": 7, "statement": STATEMENT}
OBJECT = {"path": "p", "account": "a", "type": "t", "resident_bytes": 1, "reserved_bytes": 1}


def with_statement(**more: Any) -> dict[str, Any]:
    return {**SNAPSHOT, "statement": {**STATEMENT, **more}}


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize("name", sorted(sound_recordings()))
def test_nothing_that_a_recorder_wrote_is_lost(name: str) -> None:
    """But for what is null or derived: else a reader would miss it one day."""
    _, *lines = sound_recordings()[name]
    for line in lines:
        found = plain(line)
        assert found is not None
        assert lost(line, found) == []
        event = decode(line)
        assert type(event) is EVENTS[line["event"]]
        assert event.t == line["t"]


def lost(line: Any, found: Any, path: str = "") -> list[str]:
    """Places whose value did not come through as it was."""
    if isinstance(line, Mapping):
        return [
            place
            for key, value in line.items()
            if value is not None and key not in LEFT_OUT
            for place in (
                lost(value, found[key], f"{path}.{key}") if key in found else [f"{path}.{key}"]
            )
        ]
    if isinstance(line, list):
        if len(line) != len(found):
            return [path]
        return [p for a, b in zip(line, found, strict=True) for p in lost(a, b, path)]
    return [] if line == found or (isinstance(line, float) and abs(line - found) < 1e-5) else [path]


def test_every_kind_that_is_written_is_declared_and_documented() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src" / "ramledger").rglob("*.py"))
    written = set(re.findall(r'"event": "([a-z-]+)"', source))
    assert len(written) >= 18
    assert written - NEVER_RECORDED <= set(EVENTS)
    told = set(re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "docs/recording.md").read_text(), re.M))
    assert written - NEVER_RECORDED <= told <= set(EVENTS)


def test_what_a_line_lacks_has_its_default() -> None:
    event = decode(PHASE)
    assert isinstance(event, PhaseEvent)
    assert (event.count, event.growth_bytes, event.origin) == (1, None, "")
    found = plain(PHASE)
    assert found is not None
    assert found["count"] == 1
    assert "growth_bytes" not in found


def test_unknown_fields_and_kinds_are_left_out() -> None:
    assert plain({**END, "from": "the future", "deep": nested(50)}) == plain(END)
    assert decode({"event": "from the future", "t": 1.0}) is None


def test_nested_records_are_typed() -> None:
    event = decode(SNAPSHOT)
    assert isinstance(event, SnapshotEvent)
    assert event.statement.accounts == (EntryPart(**ENTRY),)  # type: ignore[arg-type]
    sample = decode({**SAMPLE, "others": [1, 2, 3, 4, 5]})
    assert isinstance(sample, SampleEvent)
    assert sample.processes["7"] == [1, 2, 3, 4, 5]


def test_events_are_frozen_and_small() -> None:
    event = decode(END)
    assert isinstance(event, EndEvent)
    with pytest.raises(AttributeError):
        event.t = 2.0  # type: ignore[misc]
    assert not hasattr(event, "__dict__")


MALFORMED: list[Any] = [
    None, 5, [], "x", {}, {"event": None}, {"event": ["end"]}, {"event": "end"},
    {**END, "t": None}, {**END, "t": "1"}, {**END, "t": True}, {**END, "t": float("nan")},
    {**END, "t": float("inf")}, {**END, "t": 1e13}, {**END, "t": 10**400},
    {**END, "exit_code": "0"}, {**END, "exit_code": 1 << 40}, {**END, "peak_bytes": -1},
    {**END, "peak_bytes": 1 << 63}, {**END, "peak_bytes": float("nan")}, {**END, "peak_bytes": []},
    {**END, "killed_by_kernel": 1}, {**END, "killed_by_kernel": "no"},
    {**PHASE, "name": None}, {**PHASE, "name": 5}, {**PHASE, "pid": -1}, {**PHASE, "pid": "7"},
    {**PHASE, "pid": 1 << 60}, {**PHASE, "growth_bytes": -(1 << 63)}, {**PHASE, "count": True},
    {**SAMPLE, "processes": None}, {**SAMPLE, "processes": [1]}, {**SAMPLE, "processes": {"x": 1}},
    {**SAMPLE, "processes": {"7": [1, 2]}}, {**SAMPLE, "processes": {"7": [1, 2, 3, 4, "5"]}},
    {**SAMPLE, "processes": {"7": [1, 2, 3, 4, 0.5]}},
    {**SAMPLE, "processes": {"\u0667": [1, 2, 3, 4, 5]}}, {**SAMPLE, "processes": {"-7": [1] * 5}},
    {**SAMPLE, "others": {"a": 1}}, {**SAMPLE, "stale": "7"}, {**SAMPLE, "nodes": {"a": -1}},
    with_statement(schema="ramledger.statement/9"), with_statement(rss_bytes=4),
    with_statement(accounts=[{**ENTRY, "source": "hearsay"}]), with_statement(accounts={}),
    with_statement(accounts=[None]), with_statement(large_objects=[{**OBJECT, "shape": [-1]}]),
    with_statement(large_objects=[{**OBJECT, "fill": "full"}]),
    with_statement(facts={"malloc": {"largest_arenas": [{"index": "a"}]}}),
    with_statement(facts={"gpu": nested(20)}), with_statement(facts={"gpu": [float("nan")]}),
    with_statement(facts={"gpu": [10**30]}), {**SNAPSHOT, "counts": {"A": 1.5e300}},
    {**SNAPSHOT, "sizes": {"A": [1]}}, {**SNAPSHOT, "tensorflow": {"functions": [{"name": 1}]}},
]  # fmt: skip


@pytest.mark.parametrize("line", MALFORMED, ids=lambda line: str(line)[:60])
def test_what_is_not_as_declared_is_malformed(line: Any) -> None:
    for read in (plain, decode):
        with pytest.raises(MalformedEventError):
            read(line)


def test_what_a_program_states_of_its_own_objects_costs_no_snapshot() -> None:
    """Any number may be a capacity, and whoever counts with NumPy has odd generations."""
    odd = {"path": "p", "capacity": 10**30}
    shown = {**OBJECT, "shape": [1 << 32, 1 << 32], "fill": float("nan")}
    line = {**with_statement(large_objects=[shown]), "containers": [odd], "generation": "12"}
    found = plain(line)
    assert found is not None
    assert found["containers"][0]["capacity"] is None
    assert found["statement"]["large_objects"][0]["fill"] is None
    assert list(found["statement"]["large_objects"][0]["shape"]) == []
    assert found["generation"] == 12
    assert isinstance(decode(line), SnapshotEvent)


def test_long_texts_and_lists_are_cut() -> None:
    found = plain({**PHASE, "name": "x" * 100_000})
    assert found is not None
    assert len(found["name"]) == MAX_TEXT
    many = {f"class{n}": n for n in range(10 * MAX_ROWS)}
    looked = plain({**SNAPSHOT, "counts": many, "user_classes": [*many]})
    assert looked is not None
    assert len(looked["counts"]) == len(looked["user_classes"]) == MAX_ROWS


def test_times_closer_than_a_microsecond_are_one() -> None:
    found = plain({**END, "t": 5e-324})
    assert found is not None
    assert found["t"] == 0.0


def test_a_header_loses_no_more_than_the_field_that_is_malformed() -> None:
    header = {
        "schema": RECORDING_SCHEMA, "command": "python train.py", "directory": 5,
        "limit": {"bytes": 1 << 30, "source": "--limit"}, "host": {"cores": 2, "more": 1},
    }  # fmt: skip
    assert plain_header(header) == (
        {
            "schema": RECORDING_SCHEMA, "limit": {"bytes": 1 << 30, "source": "--limit"},
            "host": {"cores": 2, "system": "", "python": ""},
        },
        2,
    )  # fmt: skip


def test_malformed_events_are_counted_once_and_told(tmp_path: Path) -> None:
    path = tmp_path / "run.ledger.jsonl"
    lines = [{"schema": RECORDING_SCHEMA}, END, *(line for line in MALFORMED if type(line) is dict)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = Recording.read(str(path))
    assert len(found.events) == 1
    assert found.notes == (f"{len(lines) - 2} malformed events were ignored",)


def test_a_day_of_200_processes_is_checked_about_as_fast_as_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "day.ledger.jsonl"
    lines = [json.dumps(line) for line in ({"schema": RECORDING_SCHEMA}, *long_run())]
    path.write_text("".join(f"{line}\n" for line in lines))
    started = time.process_time()
    for line in lines:
        json.loads(line)
    parsed = time.process_time() - started
    started = time.process_time()
    found = Recording.read(str(path))
    assert time.process_time() - started < 8 * parsed
    assert len(found.events) == len(lines) - 1
    assert found.notes == ()
