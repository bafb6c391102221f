"""Count-based exploration of 60,000 cells: ever fewer of them are new."""

import random
import time
from contextlib import nullcontext
from typing import Any


def explore(visits: dict[tuple[int, int], list[int]], rng: random.Random) -> None:
    for _ in range(24_000):
        cell = rng.randrange(60_000)
        visits.setdefault((cell // 250, cell % 250), [0] * 12)[0] += 1


def bonus(visits: dict[tuple[int, int], list[int]]) -> float:
    time.sleep(0.1)
    return sum(1 / counts[0] for counts in visits.values())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    visits: dict[tuple[int, int], list[int]] = {}
    rng = random.Random(1)
    for generation in range(26):
        with phase(generation, "explore"):
            explore(visits, rng)
        with phase(generation, "bonus"):
            bonus(visits)


if __name__ == "__main__":
    run()
