"""A day of training, as the recorder would have written it, and how long its diagnosis takes.

    python benchmarks/diagnose_day.py [--keep FILE]

Samples go through the recorder's own thinning, everything through its own writer with its
own cap. Levels are made up: a buffer fills for an hour, 24 workers come and go, and from the
tenth hour on a list grows.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ramledger.diagnose.verdict import diagnose
from ramledger.event_parts import ContainerContent, ProcessMemory
from ramledger.events import (
    AllocatorsEvent,
    Event,
    GenerationEvent,
    Header,
    PhaseEvent,
    ProcessEvent,
    RunEndEvent,
    SampleEvent,
    SnapshotEvent,
)
from ramledger.ledger import Entry, Source, Statement
from ramledger.recorder.thinning import Thinning
from ramledger.recording import RecordingWriter
from ramledger.run.model import Run
from ramledger.units import GIB, MIB, format_bytes

DAY_SECONDS = 24 * 3600
SAMPLE_SECONDS = 0.5
GENERATION_SECONDS = 20.0
ONSET_HOURS = 10
LEAK_MIB = 3  # a generation
PID = 4000
WORKERS = 24
ALLOWED_SECONDS = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path)
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as folder:
        path = keep or Path(folder) / "day.ledger.jsonl"
        written, dropped = write_day(path)
        began = time.process_time()
        run = Run.read(str(path))
        read = time.process_time()
        found = diagnose(run)
        ended = time.process_time()
        whole = _command_seconds(path)
    leak = found.leaks[0] if found.leaks else None
    print(f"recording: {format_bytes(written)}, {len(run.events):,} events, {dropped} dropped")
    print(f"reading {read - began:.2f} s, judging {ended - read:.2f} s of processor time")
    print(f"`ramledger diagnose` as a whole: {whole:.2f} s (allowed: {ALLOWED_SECONDS:.0f} s)")
    print(f"verdict: {found.verdict}: {found.reason}")
    onset = ONSET_HOURS * 3600 / GENERATION_SECONDS
    if leak is not None and leak.onset_generation is not None:
        print(f"onset found {leak.onset_generation}, made {onset:.0f}")
    if whole > ALLOWED_SECONDS:
        sys.exit("too slow")


def _command_seconds(path: Path) -> float:
    command = [str(Path(sys.executable).with_name("ramledger")), "diagnose", str(path)]
    before = os.times()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    after = os.times()
    children = after.children_user - before.children_user
    return children + after.children_system - before.children_system


def write_day(path: Path) -> tuple[int, int]:
    """Write the recording; its bytes and the events that the cap kept out."""
    writer = RecordingWriter(str(path), Header(command=("python", "train.py")), force=True)
    for event in events():
        is_vital = isinstance(event, ProcessEvent | RunEndEvent)
        writer.write(replace(event, t=round(event.t, 3)), vital=is_vital)
    writer.close()
    return writer.written_bytes, writer.dropped_events


def events() -> Iterator[Event]:
    """Everything an agent and a recorder would send in a day."""
    rng, thinning = random.Random(1), Thinning(0.1)
    yield ProcessEvent(t=0.0, pid=PID, command="train.py")
    snapshot_due, generation_due, number = 5.0, GENERATION_SECONDS, 0
    workers = {PID + n: ProcessMemory(60 * MIB, 20 * MIB, threads=3) for n in range(1, 1 + WORKERS)}
    for i in range(int(DAY_SECONDS / SAMPLE_SECONDS)):
        t = i * SAMPLE_SECONDS
        anon = _anon_bytes(t) + round(rng.uniform(0, 40) * MIB)
        if thinning.keeps(t, anon):
            low, high = thinning.take_extremes()
            yield SampleEvent(
                t=t, processes={PID: ProcessMemory(anon, 90 * MIB, threads=12), **workers},
                shm_bytes=8 * MIB, low_bytes=low, high_bytes=high,
            )  # fmt: skip
        if t >= generation_due:
            generation_due += GENERATION_SECONDS
            yield from _generation(number, t, anon)
            number += 1
        if t >= snapshot_due:
            snapshot_due = max(t * 1.3, t + 5.0) if t < 3600 else t + 600.0
            yield _snapshot(number, t)
    yield RunEndEvent(t=float(DAY_SECONDS), exit_code=0)


def _leaked_bytes(t: float) -> int:
    return round(max(0.0, t - ONSET_HOURS * 3600) / GENERATION_SECONDS * LEAK_MIB * MIB)


def _buffer_bytes(t: float) -> int:
    return round(min(1.0, t / 3600) * 4 * GIB)


def _anon_bytes(t: float) -> int:
    return 2 * GIB + _buffer_bytes(t) + _leaked_bytes(t)


def _generation(number: int, t: float, anon: int) -> Iterator[Event]:
    for name, seconds in (("collect", 12.0), ("train", 7.0), ("evolve", 1.0)):
        grown = LEAK_MIB * MIB if name == "evolve" and _leaked_bytes(t) else 0
        yield PhaseEvent(
            t=t, pid=PID, name=name, generation=number, seconds=seconds, origin="explicit",
            growth_bytes=grown, before_bytes=anon, after_bytes=anon + grown, peak_bytes=anon,
            net_growth_bytes=grown,
        )  # fmt: skip
    yield GenerationEvent(
        t=t, pid=PID, generation=number, seconds=GENERATION_SECONDS, origin="explicit",
        rss_bytes=anon, anon_bytes=anon, file_bytes=90 * MIB,
    )  # fmt: skip
    yield AllocatorsEvent(
        t=t, pid=PID, generation=number, malloc_in_use_bytes=anon, malloc_free_bytes=50 * MIB,
        python_in_use_bytes=80 * MIB,
    )  # fmt: skip


def _snapshot(number: int, t: float) -> SnapshotEvent:
    accounts = {"variables/train.py:main.replay.states": (_buffer_bytes(t), 4 * GIB),
                "variables/train.py:main.league.snapshots": (_leaked_bytes(t),) * 2,
                "imports/torch": (GIB, GIB)}  # fmt: skip
    accounts |= {f"libraries/lib{i}": (5 * MIB, 5 * MIB) for i in range(36)}
    entries = tuple(
        Entry(name, *sizes, Source.PATH if name.startswith("variables") else Source.LIBRARY)
        for name, sizes in accounts.items()
    )
    rss_bytes = sum(entry.resident_bytes for entry in entries)
    container = ContainerContent(
        path="train.py:main.league.snapshots", type="list", of="numpy.ndarray",
        length=_leaked_bytes(t) // (LEAK_MIB * MIB), bytes=_leaked_bytes(t),
        account="variables/train.py:main.league.snapshots",
    )  # fmt: skip
    return SnapshotEvent(
        t=t, pid=PID, generation=number, containers=(container,),
        statement=Statement(PID, "train.py", t, rss_bytes, entries),
        live_objects={f"torch.part{i}": 10 * i for i in range(100)},
    )  # fmt: skip


if __name__ == "__main__":
    main()
