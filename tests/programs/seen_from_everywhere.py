"""One trainer, read at many depths of the stack and at many moments; prints all the names.

`seen_from_everywhere.py local|global|nested`: who holds the trainer. All arrays live as long as it.
"""

import asyncio
import functools
import json
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ramledger.objects.process_objects import read_process_objects

ARRAY = 256 * 1024  # bytes of the smallest array
AGENTS, TRANSITIONS = 6, 120

READINGS: dict[str, dict[str, dict[str, int]]] = {}
HELD: "list[Trainer]" = []


def look(place: str) -> None:
    """Read this process from where we are, with and without counting its objects."""
    for objects in (True, False):
        found = read_process_objects(objects=objects)
        accounts: Counter[str] = Counter()
        paths: Counter[str] = Counter()
        for holding in found.holdings:
            for block in holding.blocks:
                if block.storage.reserved_bytes >= ARRAY:
                    accounts[holding.account] += block.storage.reserved_bytes
                    paths[block.path] += block.storage.reserved_bytes
        long = (*found.containers, *found.small_containers)
        containers = {one.path: one.length for one in long if one.length == TRANSITIONS}
        READINGS[f"{place}, objects={objects}"] = {
            "accounts": dict(accounts),
            "paths": dict(paths),
            "containers": containers,
        }


class Agent:
    def __init__(self) -> None:
        self.actor = np.ones(ARRAY, np.uint8)
        self.critic = np.ones(2 * ARRAY, np.uint8)
        self.fitness = 0.0

    def act(self) -> None:
        look("a method of an element")

    @property
    def score(self) -> float:
        look("a property of an element")
        return self.fitness

    @classmethod
    def compare(cls, one: "Agent", other: "Agent") -> None:
        look("a class method with two elements")


class ReplayBuffer:
    def __init__(self) -> None:
        self.buffer: deque[dict[str, Any]] = deque(maxlen=1000)

    def add(self, state: np.ndarray, reward: float) -> None:
        self.buffer.append({"state": state, "reward": reward})

    def sample(self) -> None:
        batch = list(self.buffer)[:3]
        state = batch[0]["state"]
        look("a sample of the buffer in locals")
        del batch, state

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for transition in self.buffer:
            if transition is self.buffer[0]:
                look("a generator that runs")
            yield transition


class Environment:
    def __init__(self) -> None:
        self.window = np.ones(3 * ARRAY, np.uint8)

    def __enter__(self) -> "Environment":
        return self

    def __exit__(self, *error: object) -> None:
        look("the exit of a context")


class Trainer:
    def __init__(self) -> None:
        self.population = [Agent() for _ in range(AGENTS)]
        self.replay_buffer = ReplayBuffer()
        self.env = Environment()
        for _ in range(TRANSITIONS):
            self.replay_buffer.add(np.ones(ARRAY, np.uint8), 1.0)

    def train(self) -> None:
        look("a method")
        self.train_population()
        self.evolve()

    def train_population(self) -> None:
        look("a method that a method calls")
        for agent in self.population:
            if agent is self.population[2]:
                look("a loop over elements")
                agent.act()
                self.update(agent, agent.critic)
        for number, agent in enumerate(self.population):
            agent.fitness = number
            if number == 3:
                look("a loop over numbered elements")

    def update(self, agent: Agent, weights: np.ndarray) -> None:
        look("an argument that is an array of an element")

    def evolve(self) -> None:
        ranked = sorted(self.population, key=lambda agent: agent.fitness)
        best, *rest = ranked
        look("a sorted copy of the population")
        Agent.compare(best, rest[0])
        del ranked, best, rest


def by_argument(trainer: Trainer, **options: Any) -> None:
    look("an argument of a function")


def deep(trainer: Trainer, depth: int) -> None:
    if depth:
        deep(trainer, depth - 1)
    else:
        look("fifteen calls down")


def closure(trainer: Trainer) -> Callable[[], None]:
    def inside() -> None:
        look(f"a closure over {len(trainer.population)} elements")

    return inside


def elements(trainer: Trainer) -> Iterator[Agent]:
    for agent in trainer.population:
        agent.fitness += 1.0
        yield agent


@contextmanager
def borrowed(trainer: Trainer) -> Iterator[ReplayBuffer]:
    buffer = trainer.replay_buffer
    yield buffer


async def waits(trainer: Trainer) -> None:
    await asyncio.sleep(0)
    look("a coroutine")


def fails(trainer: Trainer) -> None:
    agent = trainer.population[1]
    raise ValueError(agent.fitness)


def look_everywhere(trainer: Trainer) -> None:
    look("a function")
    trainer.train()
    by_argument(trainer, agent=trainer.population[4], env=trainer.env)
    deep(trainer, 15)
    closure(trainer)()
    suspended = elements(trainer)
    next(suspended)
    look("a generator that waits")
    del suspended
    list(trainer.replay_buffer)
    trainer.replay_buffer.sample()
    with trainer.env, borrowed(trainer):
        look("a context")
    try:
        fails(trainer)
    except ValueError as error:
        look(f"a traceback of {type(error).__name__}")
    _ = trainer.population[5].score
    call_later = functools.partial(by_argument, trainer)
    look("a partial")
    del call_later
    asyncio.run(waits(trainer))
    for target in (trainer.update, functools.partial(deep, depth=2)):
        arguments = (trainer.population[0], trainer.population[0].critic)
        is_bound = target == trainer.update
        thread = threading.Thread(target=target, args=arguments if is_bound else (trainer,))
        thread.start()
        thread.join()
    del thread, target, arguments
    look("at the end")


class Application:
    """Holds a trainer as programs with a window do."""

    def __init__(self) -> None:
        self.trainer = Trainer()

    def run(self) -> None:
        look_everywhere(self.trainer)


def main(held_by: str) -> None:
    if held_by == "local":
        trainer = Trainer()
        look("where it was made")
        look_everywhere(trainer)
    elif held_by == "global":
        HELD.append(Trainer())
        look_everywhere(HELD[0])
    else:
        Application().run()
    print(json.dumps(READINGS))


if __name__ == "__main__":
    main(sys.argv[1])
