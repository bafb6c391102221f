"""Steps of every agent and episode stay in a dictionary that only training would empty."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Step:
    observation: list[float]
    action: int
    reward: float


class Collectors:
    def __init__(self) -> None:
        self.by_agent: dict[tuple[str, int], list[Step]] = {}

    def add(self, agent: str, episode: int, step: Step) -> None:
        self.by_agent.setdefault((agent, episode), []).append(step)


def collect(collectors: Collectors, generation: int) -> None:
    for episode in range(6):
        for t in range(500):
            for agent in ("red", "blue"):
                observation = [t * 0.25 + i for i in range(24)]
                collectors.add(agent, generation * 6 + episode, Step(observation, t % 4, 1.0))
        time.sleep(0.012)


def improve() -> int:
    time.sleep(0.05)
    return sum(i * i % 7 for i in range(500_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    collectors = Collectors()
    for generation in range(20):
        with phase(generation, "collect"):
            collect(collectors, generation)
        with phase(generation, "improve"):
            improve()


if __name__ == "__main__":
    run()
