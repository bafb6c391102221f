"""Travel times of regions are cached up to a fixed number,
which is reached after half of the run.
"""

from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


class Shift(NamedTuple):
    region: int
    stops: Any


class Rule(NamedTuple):
    nearness: float
    spread: float


@lru_cache(maxsize=300)
def travel_times(region: int) -> Any:
    rng = np.random.default_rng(region)
    places = rng.random((200, 2))
    direct = np.linalg.norm(places[:, None] - places[None], axis=-1)
    for hub in range(10):
        over_hub = np.add.outer(direct[hub], direct[hub])
        np.minimum(direct, 0.8 * over_hub + 0.05, out=direct)
    return direct


def plan(shift: Shift, rule: Rule) -> float:
    """Length of the tour that the rule builds stop by stop."""
    times = travel_times(shift.region)
    here, left, total = 0, shift.stops.copy(), 0.0
    center = times[:, shift.stops].mean(axis=1)
    while len(left):
        scores = rule.nearness * times[here, left] - rule.spread * center[left]
        pick = int(np.argmin(scores))
        total += float(times[here, left[pick]])
        here = int(left[pick])
        left = np.delete(left, pick)
    return total


def draw_shifts(rng: Any, count: int) -> list[Shift]:
    regions = np.minimum(rng.zipf(1.15, count), 5000).tolist()
    return [Shift(region, rng.permutation(200)[:24]) for region in regions]


def score(rule: Rule, shifts: list[Shift]) -> float:
    return -sum(plan(shift, rule) for shift in shifts) / len(shifts)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, rule = np.random.default_rng(13), Rule(1.0, 0.0)
    for generation in range(32):
        with phase(generation, "draw"):
            shifts = draw_shifts(rng, 75)
            noise = 0.1 * rng.standard_normal((15, 2))
            rules = [Rule(rule.nearness + a, rule.spread + b) for a, b in noise]
        with phase(generation, "plan"):
            scores = [score(candidate, shifts) for candidate in rules]
        with phase(generation, "select"):
            rule = rules[int(np.argmax(scores))]


if __name__ == "__main__":
    run()
