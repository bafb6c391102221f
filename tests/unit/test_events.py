"""The one decoder: what is declared comes through, everything else is left out or malformed."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from ramledger import event_parts, event_statement
from ramledger.event_codec import (
    MAX_ROWS,
    MAX_TEXT,
    MalformedEventError,
    decode,
    decode_header,
)
from ramledger.event_encoding import encode, encode_header
from ramledger.event_parts import Host, ProcessMemory
from ramledger.event_version_1 import upgraded
from ramledger.events import (
    EVENTS,
    Header,
    PhaseEvent,
    RunEndEvent,
    SampleEvent,
    SnapshotEvent,
)
from ramledger.ledger import Entry, Limit, Source
from ramledger.recording import RECORDING_SCHEMA, Recording
from tests.fuzz.sound_recordings import sound_recordings
from tests.support.places import ROOT

EVERY_PART = [
    one
    for module in (event_parts, event_statement)
    for one in vars(module).values()
    if is_dataclass(one) and isinstance(one, type)
]
LEFT_OUT = {"named_fraction", "owned_fraction", "children"}  # derived from the rest, or empty

PHASE = {"event": "phase", "t": 1.0, "pid": 7, "name": "train"}
MEMORY = {"anon_bytes": 1, "file_bytes": 2, "shmem_bytes": 3, "swap_bytes": 4, "threads": 5}
SAMPLE = {"event": "sample", "t": 1.0, "processes": {"7": MEMORY}}
END = {"event": "run-end", "t": 1.0}
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


def decoded(line: Any) -> Any:
    event = decode(line)
    assert event is not None
    return event


@pytest.mark.parametrize("name", sorted(sound_recordings()))
def test_nothing_that_a_recorder_wrote_is_lost(name: str) -> None:
    """But for what is null, derived or a default: else a reader would miss it one day."""
    first, *lines = sound_recordings()[name]
    for raw in lines:
        line = upgraded(raw) if first["schema"].endswith("/1") else raw
        event = decoded(line)
        assert type(event) is EVENTS[line["event"]]
        assert lost(line, encode(event)) == []
        assert decode(json.loads(json.dumps(encode(event)))) == event


def lost(line: Any, found: Any, path: str = "") -> list[str]:
    """Places whose value did not come through as it was."""
    if isinstance(line, Mapping):
        return [
            place
            for key, value in line.items()
            if value is not None and key not in LEFT_OUT
            for place in (
                lost(value, found[key], f"{path}.{key}")
                if key in found
                else [f"{path}.{key}"] * (bool(value) and value not in DEFAULTS.get(key, ()))
            )
        ]
    if isinstance(line, list):
        if len(line) != len(found):
            return [path]
        return [p for a, b in zip(line, found, strict=True) for p in lost(a, b, path)]
    return [] if line == found or (isinstance(line, float) and abs(line - found) < 1e-5) else [path]


DEFAULTS: dict[str, list[Any]] = {}
for part in (*EVENTS.values(), *EVERY_PART):
    for item in fields(part):
        DEFAULTS.setdefault(item.name, []).append(item.default)


def test_every_kind_is_documented() -> None:
    page = (ROOT / "docs/recording.md").read_text()
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", page, re.M))
    assert documented == set(EVENTS) - {"current-phase", "headroom"}  # never written
    for kind in EVENTS.values():
        for item in fields(kind):
            assert f"`{item.name}" in page, f"{kind.kind}: {item.name}"


def test_every_event_comes_back_as_it_was() -> None:
    for line in (PHASE, SAMPLE, END, SNAPSHOT):
        event = decoded(line)
        assert decode(json.loads(json.dumps(encode(event)))) == event


def test_what_a_line_lacks_has_its_default() -> None:
    event = decoded(PHASE)
    assert isinstance(event, PhaseEvent)
    assert (event.passes, event.growth_bytes, event.origin) == (1, None, "")
    assert encode(event) == PHASE


def test_unknown_fields_and_kinds_are_left_out() -> None:
    assert decode({**END, "from": "the future", "deep": nested(50)}) == decode(END)
    assert decode({"event": "from the future", "t": 1.0}) is None


def test_nested_records_are_typed() -> None:
    event = decoded(SNAPSHOT)
    assert isinstance(event, SnapshotEvent)
    assert event.statement.entries == (Entry("a", 5, 5, Source.PATH),)
    sample = decoded({**SAMPLE, "other_processes": MEMORY})
    assert isinstance(sample, SampleEvent)
    assert sample.processes == {7: ProcessMemory(1, 2, 3, 4, 5)}
    assert sample.other_processes == ProcessMemory(1, 2, 3, 4, 5)


def test_events_are_frozen_and_small() -> None:
    event = decoded(END)
    assert isinstance(event, RunEndEvent)
    with pytest.raises(AttributeError):
        event.t = 2.0  # type: ignore[misc]
    assert not hasattr(event, "__dict__")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"event": "end", "t": 1.0}, {"event": "run-end", "t": 1.0}),
        (
            {"event": "sample", "t": 1.0, "processes": {"7": [1, 2, 3, 4, 5]}, "low": 6},
            {**SAMPLE, "low_bytes": 6},
        ),
        (
            {**SNAPSHOT, "counts": {"A": 1}, "sizes": {"A": [1, 2]}},
            {
                **SNAPSHOT,
                "live_objects": {"A": 1},
                "statement": {**STATEMENT, "types": [{"type": "A", "count": 1, "bytes": 2}]},
            },
        ),
    ],
)
def test_version_1_is_read(old: Any, new: Any) -> None:
    assert decoded(upgraded(old)) == decoded(new)


MALFORMED: list[Any] = [
    None, 5, [], "x", {}, {"event": None}, {"event": ["run-end"]}, {"event": "run-end"},
    {**END, "t": None}, {**END, "t": "1"}, {**END, "t": True}, {**END, "t": float("nan")},
    {**END, "t": float("inf")}, {**END, "t": 1e13}, {**END, "t": 10**400},
    {**END, "exit_code": "0"}, {**END, "exit_code": 1 << 40}, {**END, "peak_bytes": -1},
    {**END, "peak_bytes": 1 << 63}, {**END, "peak_bytes": float("nan")}, {**END, "peak_bytes": []},
    {**END, "killed_by_kernel": 1}, {**END, "killed_by_kernel": "no"},
    {**PHASE, "name": None}, {**PHASE, "name": 5}, {**PHASE, "pid": -1}, {**PHASE, "pid": "7"},
    {**PHASE, "pid": 1 << 60}, {**PHASE, "growth_bytes": -(1 << 63)}, {**PHASE, "passes": True},
    {**SAMPLE, "processes": None}, {**SAMPLE, "processes": [1]}, {**SAMPLE, "processes": {"x": 1}},
    {**SAMPLE, "processes": {"7": [1, 2]}}, {**SAMPLE, "processes": {"7": {"anon_bytes": "5"}}},
    {**SAMPLE, "processes": {"7": {"anon_bytes": -1}}},
    {**SAMPLE, "processes": {"\u0667": MEMORY}}, {**SAMPLE, "processes": {"-7": MEMORY}},
    {**SAMPLE, "other_processes": [1, 2, 3, 4, 5]}, {**SAMPLE, "stale_pids": "7"},
    with_statement(schema="ramledger.statement/9"), with_statement(rss_bytes=4),
    with_statement(accounts=[{**ENTRY, "source": "hearsay"}]), with_statement(accounts={}),
    with_statement(accounts=[None]), with_statement(large_objects=[{**OBJECT, "shape": [-1]}]),
    with_statement(large_objects=[{**OBJECT, "fill": "full"}]),
    with_statement(facts={"malloc": {"largest_arenas": [{"index": "a"}]}}),
    with_statement(facts={"gpu": nested(20)}), with_statement(facts={"gpu": [float("nan")]}),
    with_statement(facts={"gpu": [10**30]}), {**SNAPSHOT, "live_objects": {"A": 1.5e300}},
    with_statement(types=[{"type": "A"}]), {**SNAPSHOT, "tensorflow": {"functions": [{"name": 1}]}},
]  # fmt: skip


@pytest.mark.parametrize("line", MALFORMED, ids=lambda line: str(line)[:60])
def test_what_is_not_as_declared_is_malformed(line: Any) -> None:
    with pytest.raises(MalformedEventError):
        decode(line)


def test_what_a_program_states_of_its_own_objects_costs_no_snapshot() -> None:
    """Any number may be a capacity, and whoever counts with NumPy has odd generations."""
    odd = {"path": "p", "capacity": 10**30}
    shown = {**OBJECT, "shape": [1 << 32, 1 << 32], "fill": float("nan")}
    line = {**with_statement(large_objects=[shown]), "containers": [odd], "generation": "12"}
    found = decoded(line)
    assert found.containers[0].capacity is None
    assert found.statement.large_objects[0].fill is None
    assert found.statement.large_objects[0].shape == ()
    assert found.generation == 12


def test_long_texts_and_lists_are_cut() -> None:
    assert len(decoded({**PHASE, "name": "x" * 100_000}).name) == MAX_TEXT
    many = {f"class{n}": n for n in range(10 * MAX_ROWS)}
    found = decoded({**SNAPSHOT, "live_objects": many, "user_classes": [*many]})
    assert len(found.live_objects) == len(found.user_classes) == MAX_ROWS


def test_times_closer_than_a_microsecond_are_one() -> None:
    assert decoded({**END, "t": 5e-324}).t == 0.0


def test_a_header_loses_no_more_than_the_field_that_is_malformed() -> None:
    header = {
        "schema": RECORDING_SCHEMA, "command": "python train.py", "directory": 5,
        "limit": {"bytes": 1 << 30, "source": "--limit"}, "host": {"cores": 2, "more": 1},
    }  # fmt: skip
    expected = Header(RECORDING_SCHEMA, limit=Limit(1 << 30, "--limit"), host=Host(cores=2))
    assert decode_header(header) == (expected, 2)
    assert decode_header(encode_header(expected)) == (expected, 0)


def test_malformed_events_are_counted_once_and_told(tmp_path: Path) -> None:
    path = tmp_path / "run.ledger.jsonl"
    lines = [{"schema": RECORDING_SCHEMA}, END, *(line for line in MALFORMED if type(line) is dict)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = Recording.read(str(path))
    assert len(found.events) == 1
    assert found.notes == (f"{len(lines) - 2} malformed events were ignored",)
