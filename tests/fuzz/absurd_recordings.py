"""Recordings of sound types and absurd content, near the size that a recorder writes at most."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.sound_recordings import MIB, Line, tensorflow

HEADER: Line = {
    "schema": "ramledger.recording/1", "command": ["python", "t.py"],
    "limit": {"bytes": 1 << 62, "source": "host RAM"},
}  # fmt: skip
PID = 7
MOST = (1 << 63) - 1


def lines_of(events: Iterator[Line], most_bytes: int) -> bytes:
    """As a file of at most so many bytes."""
    found = [json.dumps(HEADER).encode()]
    size = 0
    for event in events:
        line = json.dumps(event, separators=(",", ":")).encode()
        size += len(line) + 1
        if size > most_bytes:
            break
        found.append(line)
    return b"\n".join(found) + b"\n"


def _generation(t: float, number: int, size: int = 100 * MIB, **more: Any) -> Line:
    return {
        "event": "generation", "t": t, "pid": PID, "generation": number, "rss_bytes": size,
        "anon_bytes": size, "origin": "explicit", **more,
    }  # fmt: skip


def _sample(t: float, size: int = 100 * MIB, **more: Any) -> Line:
    return {"event": "sample", "t": t, "processes": {str(PID): [size, 0, 0, 0, 1]}, **more}


def _phase(t: float, name: str, generation: int, **more: Any) -> Line:
    return {
        "event": "phase", "t": t, "pid": PID, "name": name, "generation": generation,
        "seconds": 1.0, "growth_bytes": MIB, "before_bytes": MIB, "after_bytes": 2 * MIB,
        "peak_bytes": 500 * MIB, "children_growth_bytes": MIB, "shm_growth_bytes": MIB, **more,
    }  # fmt: skip


def _snapshots(accounts: int, count: int) -> Iterator[Line]:
    model = next(line for line in tensorflow() if line.get("event") == "snapshot")
    for number in range(count):
        rows: list[Line] = [
            {"account": f"variables/a{n}.b{number % 3}.same", "resident_bytes": MIB + number,
             "reserved_bytes": MIB << (n % 8), "source": "path", "fill": 0.000001 * (1 + number)}
            for n in range(accounts)
        ]  # fmt: skip
        rss = sum(row["resident_bytes"] for row in rows)
        statement = {**model["statement"], "accounts": rows, "rss_bytes": rss}
        yield {**model, "t": float(number), "generation": number, "statement": statement}


def phases_without_end() -> Iterator[Line]:
    for number in range(1_000_000):
        if number % 100 == 0:
            yield _generation(float(number), number // 100, 100 * MIB + number)
            yield _sample(float(number), 100 * MIB + (number % 7) * 900 * MIB, shm_bytes=number)
        yield _phase(float(number), f"phase {number}", number // 100)


def phases_that_overlap() -> Iterator[Line]:
    """All in a few generations, each as long as the run, and a spike in every sample."""
    for number in range(1_000_000):
        if number % 2000 == 0:
            yield _generation(float(number), number // 2000, 100 * MIB + number * 2000)
        if number % 5 == 0:
            yield _sample(float(number), (number % 2) << 40, shm_bytes=number << 20,
                          others=[number << 20, 0, 0, 0, 1])  # fmt: skip
        yield _phase(float(number), f"p{number % 50}", number // 2000, seconds=1e6)


def generations_far_apart() -> Iterator[Line]:
    for number in range(1_000_000):
        yield _generation(float(number), (number * 0x9E3779B97F4A7C15) % (1 << 62), number << 40)


def one_moment() -> Iterator[Line]:
    for number in range(1_000_000):
        yield _generation(0.0, number % 5, MOST if number % 2 else 0)
        yield _sample(0.0, MOST)
        yield _phase(0.0, "x", number % 5, seconds=0.0, count=0, measured=0, growth_bytes=-MOST)


def accounts_without_end() -> Iterator[Line]:
    yield from (_generation(float(n), n, 100 * MIB + n * MIB) for n in range(500))
    yield from _snapshots(300, 10_000)


def functions_without_end() -> Iterator[Line]:
    yield from (_generation(float(n), n, 100 * MIB + n * MIB) for n in range(50))
    for number in range(100_000):
        growth = {f"m{number}.py:f{n}": MIB for n in range(300)}
        yield {"event": "functions", "t": float(number), "pid": PID, "growth_bytes": growth}


def processes_without_end() -> Iterator[Line]:
    for number in range(1_000_000):
        pid = number + 8
        yield {"event": "process", "t": float(number), "pid": pid, "command": f"w {number}"}
        yield {"event": "sample", "t": float(number),
               "processes": {str(pid + n): [MIB * n, 0, 0, 0, 1] for n in range(16)}}  # fmt: skip
        yield _generation(float(number), number) | {"pid": pid}
        yield {"event": "process-end", "t": float(number), "pid": pid}


def workers_without_end() -> Iterator[Line]:
    """A cluster of thousands, each of which is judged."""
    for number in range(20_000):
        yield {"event": "process", "t": 0.0, "pid": number, "role": "env_runner",
               "name": f"r{number}", "node": "n"}  # fmt: skip
    for number in range(100_000):
        rows = {str(pid): [number << 20, 0, 0, 0, 1] for pid in range(4_000)}
        yield {"event": "sample", "t": float(number), "generation": number, "processes": rows}


ABSURD: dict[str, Callable[[], Iterator[Line]]] = {
    make.__name__: make
    for make in (
        phases_without_end, phases_that_overlap, generations_far_apart, one_moment,
        accounts_without_end, functions_without_end, processes_without_end, workers_without_end,
    )
}  # fmt: skip
