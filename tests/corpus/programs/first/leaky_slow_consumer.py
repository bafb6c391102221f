"""A queue without a bound: the actor puts ten batches, the learner takes eight."""

import queue
import time
from contextlib import nullcontext
from typing import Any


def produce(batches: "queue.Queue[tuple[int, bytearray]]") -> None:
    for number in range(10):
        batches.put((number, bytearray(b"d") * (3 << 20)))
        time.sleep(0.01)


def consume(batches: "queue.Queue[tuple[int, bytearray]]") -> int:
    total = 0
    for _ in range(8):
        number, batch = batches.get()
        total += number + len(batch)
        time.sleep(0.01)
    return total


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    batches: queue.Queue[tuple[int, bytearray]] = queue.Queue()
    for generation in range(22):
        with phase(generation, "produce"):
            produce(batches)
        with phase(generation, "consume"):
            consume(batches)


if __name__ == "__main__":
    run()
