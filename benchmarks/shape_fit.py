"""How well shapes, rates and answers are found in made-up series of every shape and density.

    python benchmarks/shape_fit.py [--seeds 200] [--densities 4,8,20,100,2000]

Levels are MiB around 500, with the noise of allocators. A run has 100 iterations, or as many as
points; snapshots are irregular. "right answer": rising at the end or not; the rest is undecided
(not enough) or wrong.
"""

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ramledger.run.shapes import Fit, Shape, fit

PAGE = 4096 / (1 << 20)
GROWN = 100.0  # MiB over the whole run, where something grows
FLAT = {Shape.CONSTANT, Shape.SAWTOOTH}
CHANGED = {Shape.STEP, Shape.FILLING}

Level = Callable[[float, int], float]  # of the share of the run that is over, and the iteration


@dataclass(frozen=True)
class Scenario:
    """One kind of series: what is true of it."""

    name: str
    level: Level
    shapes: frozenset[Shape]
    rises: bool
    grown: float = 0.0  # MiB a run, at the end of it
    noise: float = 2.0
    correlation: float = 0.0
    spikes: bool = False


def _scenario(
    name: str, level: Level, shapes: set[Shape], grown: float = 0.0, noise: float = 2.0,
    correlation: float = 0.0, spikes: bool = False,
) -> Scenario:  # fmt: skip
    return Scenario(
        name, level, frozenset(shapes), Shape.LINEAR in shapes, grown, noise, correlation, spikes
    )  # fmt: skip


def _warm(u: float) -> float:
    return 60 * (1 - math.exp(-u / 0.04))


SCENARIOS = (
    _scenario("constant", lambda u, i: 0, FLAT),
    _scenario("constant, correlated noise", lambda u, i: 0, FLAT, noise=3, correlation=0.7),
    _scenario("constant, spikes", lambda u, i: 0, FLAT, spikes=True),
    _scenario("warm-up", lambda u, i: _warm(u), CHANGED | {Shape.CONSTANT}),
    _scenario(
        "warm-up over half", lambda u, i: 100 * (1 - math.exp(-u / 0.2)), CHANGED,
        500 * math.exp(-5),
    ),
    _scenario("step at 60 %", lambda u, i: 80 * (u > 0.6), {Shape.STEP}),
    _scenario("two steps", lambda u, i: 50 * (u > 0.3) + 60 * (u > 0.7), {Shape.STEP}),
    _scenario("filled at 50 %", lambda u, i: GROWN * 2 * min(u, 0.5), CHANGED),
    _scenario("filled at 80 %", lambda u, i: GROWN * 1.25 * min(u, 0.8), CHANGED),
    _scenario("leak that stops at 50 %", lambda u, i: 80 * min(max(0, u - 0.2), 0.3), CHANGED),
    _scenario("sawtooth of 7", lambda u, i: 8 * (i % 7), FLAT),
    _scenario("sawtooth of 5 in all", lambda u, i: 178 * (u * 5 % 1), FLAT),
    _scenario("linear", lambda u, i: GROWN * u, {Shape.LINEAR}, GROWN),
    _scenario("linear, noise 5", lambda u, i: GROWN * u, {Shape.LINEAR}, GROWN, noise=5),
    _scenario("linear, correlated noise", lambda u, i: GROWN * u, {Shape.LINEAR}, GROWN, 3, 0.7),
    _scenario("linear, spikes", lambda u, i: GROWN * u, {Shape.LINEAR}, GROWN, spikes=True),
    _scenario("slow leak 0.1 %", lambda u, i: 50 * u, {Shape.LINEAR}, 50, noise=5),
    _scenario("leak after warm-up", lambda u, i: _warm(u) + GROWN * u, {Shape.LINEAR}, GROWN),
    _scenario("leak from 50 %", lambda u, i: 2 * GROWN * max(0, u - 0.5), {Shape.LINEAR}, 200),
    _scenario(
        "two slopes", lambda u, i: 50 * u + 150 * max(0, u - 0.5), {Shape.LINEAR}, 200
    ),
    _scenario("step, then leak", lambda u, i: 80 * (u > 0.3) + GROWN * u, {Shape.LINEAR}, GROWN),
    _scenario("leak with teeth of 7", lambda u, i: GROWN * u + 8 * (i % 7), {Shape.LINEAR}, GROWN),
)  # fmt: skip


def series(scenario: Scenario, count: int, seed: int) -> list[tuple[float, float]]:
    """Points of one run; fewer than iterations are spread unevenly."""
    random_ = random.Random(f"{scenario.name}{count}{seed}")
    iterations = max(100, count)
    ats = list(range(iterations))
    if count < iterations:
        share = iterations / count
        ats = [int((k + random_.uniform(0.05, 0.95)) * share) for k in range(count)]
    noise, points = 0.0, []
    spread = math.sqrt(1 - scenario.correlation**2) * scenario.noise
    for at in ats:
        noise = scenario.correlation * noise + random_.gauss(0, spread)
        level = 500 + scenario.level(at / (iterations - 1), at) + noise
        if scenario.spikes and random_.random() < 0.04:
            level += random_.uniform(30, 300)
        points.append((float(at), round(level / PAGE) * PAGE))
    return points


def judged(scenario: Scenario, found: Fit) -> str:
    if not found.enough:
        return "undecided"
    is_leak = found.shape is Shape.LINEAR and found.is_rising_at_end
    return "right" if is_leak == scenario.rises else "wrong"


def row(scenario: Scenario, count: int, seeds: int) -> str:
    """One line of the table."""
    answers: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    errors, inside, right = [], 0, 0
    for seed in range(seeds):
        points = series(scenario, count, seed)
        found = fit(points, quantum=PAGE)
        answers[judged(scenario, found)] += 1
        shapes[found.shape] += 1
        right += found.shape in scenario.shapes
        rate = scenario.grown / (max(100, count) - 1)
        low, high = found.rate_interval
        inside += low <= rate <= high
        if scenario.rises and found.enough and found.rate > 0:
            errors.append(abs(found.rate / rate - 1))
    told = f"{_middle(errors):6.1%} {_share(errors, 0.1):4.0%}" if errors else " " * 11
    most = ", ".join(f"{shape} {number}" for shape, number in shapes.most_common(3))
    return (
        f"{scenario.name:28} {count:5} {answers['right'] / seeds:5.0%} "
        f"{answers['undecided'] / seeds:5.0%} {answers['wrong'] / seeds:5.0%} "
        f"{right / seeds:5.0%} {told} {inside / seeds:5.0%}  {most}"
    )


def _middle(errors: Sequence[float]) -> float:
    return sorted(errors)[len(errors) // 2]


def _share(errors: Sequence[float], most: float) -> float:
    return sum(error <= most for error in errors) / len(errors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--densities", default="4,8,20,100,2000")
    options = parser.parse_args()
    print(
        f"{'series':28} {'n':>5} right undec wrong shape  rate: median error, within 10 %, "
        "in the interval; shapes"
    )
    for count in map(int, options.densities.split(",")):
        began = time.process_time()
        for scenario in SCENARIOS:
            print(row(scenario, count, options.seeds), flush=True)
        spent = (time.process_time() - began) / len(SCENARIOS) / options.seeds
        print(f"-- {count} points: {spent * 1000:.1f} ms CPU a series\n")


if __name__ == "__main__":
    main()
