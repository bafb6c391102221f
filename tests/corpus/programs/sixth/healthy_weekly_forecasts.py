"""Forecasts of the sea are cached while a week lasts, and thrown away every six generations."""

from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np

SIDE = 220


@cache
def forecast(week: int, day: int, hour: int) -> Any:
    rng = np.random.default_rng([week, day, hour])
    waves = rng.normal(size=(SIDE, SIDE))
    for axis in (0, 1):
        waves = sum(np.roll(waves, shift, axis) for shift in range(-3, 4)) / 7
    return waves


class Ship:
    def __init__(self, caution: float) -> None:
        self.caution = caution
        self.row, self.column = SIDE // 2, 0

    def steer(self, week: int, day: int, hour: int) -> float:
        sea = forecast(week, day, hour)
        rows = np.clip([self.row - 1, self.row, self.row + 1], 0, SIDE - 1)
        ahead = sea[rows, (self.column + 1) % SIDE]
        self.row = int(rows[(self.caution * ahead).argmin()])
        self.column += 1
        return -float(sea[self.row, self.column % SIDE])


def cruise(cautions: Any, week: int, day: int) -> Any:
    scores = []
    for caution in cautions:
        ship = Ship(float(caution))
        scores.append(sum(ship.steer(week, day, step % 24) for step in range(360)))
    return np.array(scores)


def evolve(cautions: Any, scores: Any, rng: Any) -> Any:
    best = cautions[scores.argsort()[-4:]]
    return rng.choice(best, len(cautions)) + 0.2 * rng.normal(size=len(cautions))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(47)
    cautions = rng.normal(size=44)
    for generation in range(29):
        week, day = divmod(generation, 6)
        with phase(generation, "renew"):
            if day == 0:
                forecast.cache_clear()
        with phase(generation, "cruise"):
            scores = cruise(cautions, week, day)
        with phase(generation, "evolve"):
            cautions = evolve(cautions, scores, rng)


if __name__ == "__main__":
    run()
