"""The number of parcels of a day is very uneven,
and the fleet for it is hired and let go at once.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Van:
    parcels: Any
    distances: Any
    cost: float = 0.0

    def deliver(self, taste: Any) -> float:
        place, left = 0, np.ones(len(self.parcels), bool)
        for _ in range(len(self.parcels) - 1):
            left[place] = False
            wish = self.distances[place] - self.parcels @ taste
            wish[~left] = np.inf
            after = int(wish.argmin())
            self.cost += float(self.distances[place, after])
            place = after
        return self.cost


def hire(rng: Any, parcels: int) -> list[Van]:
    fleet = []
    for _ in range(max(parcels // 500, 1)):
        load = rng.random((500, 2))
        fleet.append(Van(load, np.linalg.norm(load[:, None] - load[None], axis=2)))
    return fleet


def drive(crew: ThreadPoolExecutor, fleet: list[Van], taste: Any) -> float:
    return sum(crew.map(lambda van: van.deliver(taste), fleet)) / len(fleet)


def practice(rng: Any, taste: Any) -> float:
    van = hire(rng, 500)[0]
    return min(Van(van.parcels, van.distances).deliver(taste * scale) for scale in range(12))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, taste, best = np.random.default_rng(43), np.zeros(2), np.inf
    with ThreadPoolExecutor(2) as crew:
        for generation in range(30):
            with phase(generation, "hire"):
                fleet = hire(rng, int(rng.lognormal(9.3, 0.6)))
            with phase(generation, "drive"):
                trial = taste + 0.05 * rng.normal(size=2)
                cost = drive(crew, fleet, trial)
                taste, best = (trial, cost) if cost < best else (taste, best)
            with phase(generation, "practice"):
                practice(rng, taste)


if __name__ == "__main__":
    run()
