"""The stacked population against a plain loop over agents: CPU time of an update and of acting.

    python benchmarks/population_update.py [--agents 16] [--repeats 5]

One thread; both ways take turns, and the least CPU time of each counts, so that other work on the
machine does not decide.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from ramledger.train.population import Minibatch, Population
from ramledger.trainer_config import Learning
from tests.support.plain_training_loop import PlainAgent

FEATURES, ACTIONS = 71, 7
CASES = [((256, 256), 256, 1.4), ((256, 256), 32, 3.0), ((64, 64), 64, 7.0)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(f"update of {options.agents} agents, CPU ms, {FEATURES} features, {ACTIONS} actions")
    print("| hidden | batch | plain loop | stacked | ratio | wanted |")
    print("|---|---|---|---|---|---|")
    for hidden, batch, wanted in CASES:
        plain, stacked = _compared(options.agents, hidden, batch, options.repeats)
        print(
            f"| {'×'.join(map(str, hidden))} | {batch} | {1e3 * plain:.1f} | {1e3 * stacked:.1f} "
            f"| {plain / stacked:.2f} | {wanted} |",
            flush=True,
        )


def _compared(agents: int, hidden: tuple[int, ...], batch: int, repeats: int) -> tuple[float, ...]:
    learning = Learning(hidden=hidden, batch=batch)
    population = Population(
        FEATURES, ACTIONS, agents=agents, learners=agents, learning=learning,
        agents_per_chunk=agents, seed=0,
    )  # fmt: skip
    loop = [PlainAgent(population, row) for row in range(agents)]
    given = Minibatch(
        torch.randn(agents, batch, FEATURES), torch.randn(agents, batch, ACTIONS).tanh(),
        torch.randn(agents, batch), torch.randn(agents, batch, FEATURES),
        torch.full((agents, batch), 0.99),
    )  # fmt: skip
    rng = np.random.default_rng(0)

    def plain() -> None:
        for row, agent in enumerate(loop):
            agent.update(given, row)

    def stacked() -> None:
        population.update(given, rng)

    times: dict[Callable[[], None], float] = {plain: float("inf"), stacked: float("inf")}
    for _ in range(repeats):
        for way in times:
            times[way] = min(times[way], _cpu_seconds(way, 5))
    return tuple(times.values())


def _cpu_seconds(way: Callable[[], None], count: int) -> float:
    best = float("inf")
    for _ in range(count):
        begin = time.process_time()
        way()
        best = min(best, time.process_time() - begin)
    return best


if __name__ == "__main__":
    main()
