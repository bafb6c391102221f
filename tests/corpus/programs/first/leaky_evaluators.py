"""Each evaluation starts a process of its own and never ends it."""

import multiprocessing
import time
from contextlib import nullcontext
from typing import Any


def serve(size: int) -> None:
    world = bytearray(size)
    world[::4096] = b"w" * len(world[::4096])
    time.sleep(600)


def evaluate(workers: list[Any]) -> None:
    context = multiprocessing.get_context("fork")
    worker = context.Process(target=serve, args=(8 << 20,), daemon=True)
    worker.start()
    workers.append(worker)
    time.sleep(0.2)


def improve() -> int:
    return sum(i % 9 for i in range(700_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    workers: list[Any] = []
    try:
        for generation in range(16):
            with phase(generation, "improve"):
                improve()
            with phase(generation, "evaluate"):
                evaluate(workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


if __name__ == "__main__":
    run()
