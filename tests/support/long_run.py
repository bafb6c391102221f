"""A made-up run of 24 hours: 200 processes, thousands of generations, hundreds of looks."""

from collections.abc import Iterator
from typing import Any

from tests.support.report_events import MIB, PID, generation, phase, process, snapshot, statement

HOURS = 24
PROCESSES = 200
SAMPLES = 2000
GENERATIONS = 4000
LOOKS = 500
ACCOUNTS = 40


def long_run() -> Iterator[dict[str, Any]]:
    """One process that grows by a GiB in a day, 199 workers that are alike but for one."""
    seconds = HOURS * 3600.0
    for number in range(PROCESSES):
        yield process(PID + number, f"python worker.py --rank {number}", PID if number else 1)
    for number in range(SAMPLES):
        part = number / SAMPLES
        rows = {str(PID): [round((300 + 1024 * part) * MIB), 80 * MIB, 0, 0, 4]}
        for rank in range(1, PROCESSES):
            size = 50 * MIB + 4096 * ((number * 7 + rank * 13) % 97)
            rows[str(PID + rank)] = [size * (3 if rank == 77 else 1), 8 * MIB, 0, 0, 2]
        total = sum(sum(row[:3]) for row in rows.values())
        yield {
            "event": "sample", "t": seconds * part, "processes": rows, "low": total - MIB,
            "high": total + (900 * MIB if number == 1234 else MIB), "used_bytes": total - 100 * MIB,
        }  # fmt: skip
    for number in range(GENERATIONS):
        t = seconds * (number + 1) / GENERATIONS
        rss = round((380 + 1024 * number / GENERATIONS) * MIB)
        for name, grown in (("collect", 0), ("evaluate", MIB // 4), ("learn", 0)):
            yield phase(t, number, name, rss, rss + grown) | {"growth_bytes": grown}
        yield generation(t, number, rss)
    for number in range(LOOKS):
        part = number / LOOKS
        rss = round((380 + 1024 * part) * MIB)
        accounts = {f"variables/train.py:run.part_{n}.table": 4 * MIB for n in range(ACCOUNTS - 1)}
        accounts["variables/train.py:run.archive"] = rss - 160 * MIB
        document = statement(accounts, rss_bytes=rss)
        document["large_objects"] = [
            {
                "path": f"train.py:run.part_{n}.table", "account": "variables", "dtype": "float32",
                "type": "numpy.ndarray", "resident_bytes": 4 * MIB, "reserved_bytes": 4 * MIB,
                "shape": [1024, 1024],
            }
            for n in range(20)
        ]  # fmt: skip
        yield snapshot(
            seconds * part + 1, document, generation=round(GENERATIONS * part),
            counts={f"train.Thing{n}": n + number for n in range(60)},
            containers=[{"path": "train.py:run.archive", "type": "list", "length": 10 * number}],
        )  # fmt: skip
