"""The environment worker itself remembers every observation it has sent."""

import multiprocessing
import time
from contextlib import nullcontext
from typing import Any


def environment(pipe: Any) -> None:
    seen = []
    while (count := pipe.recv()) is not None:
        for _ in range(count):
            seen.append(bytearray(b"o") * (256 << 10))
        pipe.send(len(seen))


def collect(pipe: Any) -> int:
    pipe.send(24)
    time.sleep(0.1)
    return int(pipe.recv())


def learn() -> int:
    return sum(i % 9 for i in range(1_200_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    context = multiprocessing.get_context("fork")
    near, far = context.Pipe()
    worker = context.Process(target=environment, args=(far,), daemon=True)
    worker.start()
    for generation in range(20):
        with phase(generation, "collect"):
            collect(near)
        with phase(generation, "learn"):
            learn()
    near.send(None)
    worker.join()


if __name__ == "__main__":
    run()
