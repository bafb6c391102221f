"""Two forked workers answer for the whole run and grow no more."""

import multiprocessing
import time
from contextlib import nullcontext
from typing import Any


def environment(pipe: Any) -> None:
    world = bytearray(b"w") * (6 << 20)
    while (step := pipe.recv()) is not None:
        observation = bytes(world[step : step + 1000])
        time.sleep(0.02)
        pipe.send(observation)


def collect(pipes: list[Any]) -> int:
    total = 0
    for step in range(4):
        for pipe in pipes:
            pipe.send(step)
        total += sum(len(pipe.recv()) for pipe in pipes)
    return total


def learn() -> int:
    return sum(i % 3 for i in range(1_000_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    context = multiprocessing.get_context("fork")
    pairs = [context.Pipe() for _ in range(2)]
    workers = [context.Process(target=environment, args=(far,), daemon=True) for _, far in pairs]
    for worker in workers:
        worker.start()
    pipes = [near for near, _ in pairs]
    for generation in range(20):
        with phase(generation, "collect"):
            collect(pipes)
        with phase(generation, "learn"):
            learn()
    for pipe in pipes:
        pipe.send(None)


if __name__ == "__main__":
    run()
