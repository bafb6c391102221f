"""A training in small: `rehearsed.py KIND [ENVIRONMENTS]`, to be rehearsed."""

import os
import signal
import sys
import time
from collections import deque
from typing import Any

import numpy as np

ITERATIONS, ADDED, CAPACITY = 120, 40, 2000


def train(environments: int, rest: float, capacity: int | None = CAPACITY) -> None:
    buffer: deque[Any] = deque(maxlen=capacity)
    frames = [np.ones(4 << 20, np.uint8) for _ in range(environments)]
    for iteration in range(ITERATIONS):
        for _ in range(ADDED):
            buffer.append((np.random.rand(3000), iteration))
        time.sleep(rest)
    print(len(buffer), len(frames))


def become_a_daemon() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execlp("sleep", "sleep", "7531")
        os._exit(0)


def main() -> None:
    kind = sys.argv[1]
    environments = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    if kind == "exits":
        sys.exit("no data")
    if kind == "asks":
        input("how many? ")
    if kind == "never-loops":
        time.sleep(600)
    if kind == "daemon":
        become_a_daemon()
    if kind == "deaf":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    train(environments, rest=0.1, capacity=None if kind == "endless" else CAPACITY)


if __name__ == "__main__":
    main()
