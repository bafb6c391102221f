"""Events of a made-up run, and recordings of them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ramledger.event_encoding import encode, encode_header
from ramledger.event_parts import ContainerContent, ProcessMemory, RunSettings
from ramledger.events import (
    Event,
    ExpectationEvent,
    GenerationEvent,
    Header,
    PhaseEvent,
    ProcessEndEvent,
    ProcessEvent,
    RunEndEvent,
    SampleEvent,
    SnapshotEvent,
)
from ramledger.ledger import Entry, Limit, Source, Statement
from ramledger.recording import RECORDING_SCHEMA
from ramledger.run.model import Run

MIB = 1 << 20
PID = 700

HEADER = Header(
    schema=RECORDING_SCHEMA,
    ramledger="0.1.0",
    started_at=1760000000.0,
    command=("python", "train.py", "--seed", "3"),
    directory="/data/run7",
    limit=Limit(1024 * MIB, "--limit"),
    settings=RunSettings(every_seconds=0.5, budget=0.01),
)


def in_time_order(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.t)


def run_of(*events: Event, header: Header = HEADER, keep_events: bool = False) -> Run:
    """A run that was fed these events."""
    run = Run(header, keep_events=keep_events)
    for event in events:
        run.take(event)
    return run


def recorded(
    events: Iterable[Event], header: Header = HEADER, path: str = "/data/train.ledger.jsonl"
) -> Run:
    """A run as it is read from a recording of these events."""
    run = run_of(*in_time_order(events), header=header, keep_events=True)
    run.path = path
    return run


def lines_of(events: Iterable[Event], header: Header | None = HEADER) -> str:
    """What a recorder writes of them, in this order."""
    lines = [encode_header(header)] if header is not None else []
    lines += [encode(event) for event in events]
    return "".join(json.dumps(line) + "\n" for line in lines)


def entry(account: str, size: int, **more: Any) -> Entry:
    known: dict[str, Any] = {"reserved_bytes": size, "source": Source.PATH, "objects": 1, **more}
    return Entry(account, size, **known)


def statement(
    accounts: Mapping[str, int],
    *,
    rss_bytes: int,
    pid: int = PID,
    more: Mapping[str, Mapping[str, Any]] | None = None,
) -> Statement:
    """A statement; `more` are fields of entries by account."""
    return Statement(
        pid=pid,
        command="python train.py --seed 3",
        at=1760000000.0,
        rss_bytes=rss_bytes,
        entries=tuple(
            entry(account, size, **(more or {}).get(account, {}))
            for account, size in accounts.items()
        ),
    )


def sample(t: float, sizes: Mapping[int, int], **more: Any) -> SampleEvent:
    rows = {pid: ProcessMemory(size, threads=2) for pid, size in sizes.items()}
    return SampleEvent(t=t, processes=rows, **{"available_bytes": 1 << 34, **more})


def process(pid: int, command: str, parent: int = 1, **more: Any) -> ProcessEvent:
    return ProcessEvent(t=0.0, pid=pid, parent_pid=parent, command=command, **more)


def process_end(t: float, pid: int) -> ProcessEndEvent:
    return ProcessEndEvent(t=t, pid=pid)


def phase(t: float, generation: int, name: str, before: int, after: int) -> PhaseEvent:
    return PhaseEvent(
        t=t, pid=PID, name=name, generation=generation, seconds=1.0, before_bytes=before,
        after_bytes=after, peak_bytes=after + 8 * MIB, origin="named",
    )  # fmt: skip


def generation(t: float, number: int, rss_bytes: int, pid: int = PID) -> GenerationEvent:
    return GenerationEvent(
        t=t, pid=pid, generation=number, seconds=2.0, rss_bytes=rss_bytes, anon_bytes=rss_bytes,
        origin="named",
    )  # fmt: skip


def snapshot(t: float, document: Statement, **more: Any) -> SnapshotEvent:
    known: dict[str, Any] = {"pid": document.pid, "cost_seconds": 0.01, **more}
    return SnapshotEvent(t=t, statement=document, **known)


def run_end(t: float = 41.0, **more: Any) -> RunEndEvent:
    return RunEndEvent(t=t, **{"exit_code": 0, "peak_bytes": 0, **more})


def doubled_buffer(rss_bytes: int = 200 * MIB) -> Iterator[Event]:
    """A run of stable-baselines3 whose buffer holds each observation twice, 80 MiB each."""
    names = ("replay/observations", "replay/next_observations")
    sizes = {**dict.fromkeys(names, 80 * MIB), "imports/stable_baselines3": MIB}
    reserved = {name: {"reserved_bytes": 80 * MIB} for name in names}
    yield process(PID, "python train.py --seed 3", has_agent=True)
    yield sample(0.5, {PID: rss_bytes})
    yield snapshot(1.0, statement(sizes, rss_bytes=rss_bytes, more=reserved))
    yield sample(1.5, {PID: rss_bytes})


def leaking_run(generations: int = 10) -> Iterator[Event]:
    """100 MiB, and 16 MiB more with each `evaluate`; a replay that is half full; two workers."""
    yield process(PID, "python train.py --seed 3")
    yield process(PID + 1, "python worker", PID)
    yield process(PID + 2, "python worker", PID)
    rss = 100 * MIB
    for number in range(generations):
        t = 4.0 * number
        before, rss = rss, rss + 16 * MIB
        for step in range(8):
            level = before if step < 4 else rss
            sizes = {PID: level, PID + 1: 20 * MIB, PID + 2: 10 * MIB}
            yield sample(t + step / 2, sizes, tree_pss_bytes=level + 30 * MIB)
        yield phase(t + 3.9, number, "evaluate", before, rss)
        yield phase(t + 3.9, number, "train", rss, rss)
        yield generation(t + 3.9, number, rss)
        leaked = rss - 60 * MIB
        accounts = {"variables/trainer.envs": leaked, "replay/observations": 40 * MIB}
        filled = {"reserved_bytes": 80 * MIB, "fill": 0.5, "source": Source.RECOGNIZED}
        document = statement(accounts, rss_bytes=rss, more={"replay/observations": filled})
        counts = {"__main__.TradingEnvironment": 2 + 16 * number, "dict": 5000 + number}
        envs = ContainerContent("trainer.envs", type="list", length=16 * number, of="Env")
        yield snapshot(
            t + 3.95, document, generation=number, phase="evaluate", live_objects=counts,
            containers=(envs,),
        )  # fmt: skip
    yield ExpectationEvent(
        t=5.0, pid=PID, type="TradingEnvironment", expected=2, found=18, generation=1,
        phase="evaluate", paths=("trainer.envs[*]",),
    )  # fmt: skip


def with_growth(event: Event) -> Event:
    """A phase that says itself how much it grew."""
    if not isinstance(event, PhaseEvent):
        return event
    return replace(event, growth_bytes=event.after_bytes - event.before_bytes)
