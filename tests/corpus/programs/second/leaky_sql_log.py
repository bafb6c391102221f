"""A log of transitions in an SQLite database in memory is never pruned."""

import random
import sqlite3
import time
from contextlib import nullcontext
from typing import Any


def record(database: sqlite3.Connection, rng: random.Random) -> None:
    for _ in range(96):
        database.execute("insert into log values (?)", (rng.randbytes(64 << 10),))
    database.commit()
    time.sleep(0.08)


def plan() -> int:
    return sum(i % 11 for i in range(1_200_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    database = sqlite3.connect(":memory:")
    database.execute("create table log (step blob)")
    rng = random.Random(7)
    for generation in range(18):
        with phase(generation, "plan"):
            plan()
        with phase(generation, "record"):
            record(database, rng)


if __name__ == "__main__":
    run()
