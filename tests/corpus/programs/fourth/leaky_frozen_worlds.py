"""The heap is frozen before each fork,
and so the worlds of all generations escape the collector.
"""

import gc
from contextlib import nullcontext
from multiprocessing import get_context
from typing import Any

import numpy as np

CONTEXT = get_context("fork")
BODIES, SIDE = 30, 440


class Body:
    def __init__(self, world: "World", place: Any) -> None:
        self.world = world
        self.place = place
        self.speed = np.zeros(2)

    def push(self, force: Any) -> None:
        row, column = self.place.astype(int) % SIDE
        slope = self.world.heights[row, column] - self.world.heights[row - 1, column - 1]
        self.speed = 0.9 * self.speed + force - 0.1 * slope
        self.place = self.place + self.speed


class World:
    """Hilly ground with bodies on it."""

    def __init__(self, rng: Any) -> None:
        coarse = rng.normal(0, 1, (44, 44))
        self.heights = np.kron(coarse, np.ones((10, 10)))
        self.bodies = [Body(self, rng.uniform(0, SIDE, 2)) for _ in range(BODIES)]

    def simulate(self, policy: Any, steps: int) -> float:
        for _ in range(steps):
            for body in self.bodies:
                body.push(policy @ np.append(body.speed, 1.0))
        return float(np.mean([np.abs(body.speed).sum() for body in self.bodies]))


def build(rng: Any, count: int) -> list[World]:
    return [World(rng) for _ in range(count)]


def work(worlds: list[World], policies: list[Any], sender: Any) -> None:
    sender.send([sum(world.simulate(policy, 40) for world in worlds) for policy in policies])
    sender.close()


def evaluate(worlds: list[World], policies: list[Any]) -> list[float]:
    gc.freeze()  # keep the pages shared with the children
    pairs, scores = [], []
    for half in (policies[::2], policies[1::2]):
        receiver, sender = CONTEXT.Pipe(duplex=False)
        child = CONTEXT.Process(target=work, args=(worlds, half, sender))
        child.start()
        sender.close()
        pairs.append((child, receiver))
    for child, receiver in pairs:
        scores += receiver.recv()
        child.join()
        receiver.close()
    return scores


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, mean = np.random.default_rng(3), np.zeros((2, 3))
    for generation in range(28):
        with phase(generation, "build"):
            worlds = build(rng, 6)
        with phase(generation, "evaluate"):
            policies = [mean + rng.normal(0, 0.2, (2, 3)) for _ in range(6)]
            scores = evaluate(worlds, policies)
        with phase(generation, "update"):
            ranked = [*policies[::2], *policies[1::2]]
            mean = 0.9 * mean + 0.1 * ranked[int(np.argmax(scores))]


if __name__ == "__main__":
    run()
