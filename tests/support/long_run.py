"""A made-up run of 24 hours: 200 processes, thousands of iterations, hundreds of snapshots."""

from collections.abc import Iterator
from dataclasses import replace

from ramledger.event_parts import ContainerContent, ProcessMemory
from ramledger.events import Event, SampleEvent
from ramledger.ledger import LargeObject
from tests.support.report_events import MIB, PID, generation, phase, process, snapshot, statement

HOURS = 24
PROCESSES = 200
SAMPLES = 2000
GENERATIONS = 4000
SNAPSHOTS = 500
ACCOUNTS = 40


def long_run() -> Iterator[Event]:
    """One process that grows by a GiB in a day, 199 workers that are alike but for one."""
    seconds = HOURS * 3600.0
    for number in range(PROCESSES):
        yield process(PID + number, f"python worker.py --rank {number}", PID if number else 1)
    for number in range(SAMPLES):
        part = number / SAMPLES
        rows = {PID: ProcessMemory(round((300 + 1024 * part) * MIB), 80 * MIB, threads=4)}
        for rank in range(1, PROCESSES):
            size = 50 * MIB + 4096 * ((number * 7 + rank * 13) % 97)
            size *= 3 if rank == 77 else 1
            rows[PID + rank] = ProcessMemory(size, 8 * MIB, threads=2)
        total = sum(memory.resident_bytes for memory in rows.values())
        yield SampleEvent(
            t=seconds * part, processes=rows, low_bytes=total - MIB,
            high_bytes=total + (900 * MIB if number == 1234 else MIB),
            tree_bytes=total - 100 * MIB,
        )  # fmt: skip
    for number in range(GENERATIONS):
        t = seconds * (number + 1) / GENERATIONS
        rss = round((380 + 1024 * number / GENERATIONS) * MIB)
        for name, grown in (("collect", 0), ("evaluate", MIB // 4), ("learn", 0)):
            yield replace(phase(t, number, name, rss, rss + grown), growth_bytes=grown)
        yield generation(t, number, rss)
    for number in range(SNAPSHOTS):
        part = number / SNAPSHOTS
        rss = round((380 + 1024 * part) * MIB)
        accounts = {f"variables/train.py:run.part_{n}.table": 4 * MIB for n in range(ACCOUNTS - 1)}
        accounts["variables/train.py:run.archive"] = rss - 160 * MIB
        large = tuple(
            LargeObject(
                path=f"train.py:run.part_{n}.table", account="variables", type="numpy.ndarray",
                resident_bytes=4 * MIB, reserved_bytes=4 * MIB, dtype="float32", shape=(1024, 1024),
            )
            for n in range(20)
        )  # fmt: skip
        archive = ContainerContent("train.py:run.archive", type="list", length=10 * number)
        yield snapshot(
            seconds * part + 1, replace(statement(accounts, rss_bytes=rss), large_objects=large),
            generation=round(GENERATIONS * part),
            live_objects={f"train.Thing{n}": n + number for n in range(60)},
            containers=(archive,),
        )  # fmt: skip
