"""Two workers that keep what they play: `growing_workers.py fork|spawn bounded|endless`."""

import multiprocessing
import sys
import time
from collections import deque
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

ITERATIONS, EPISODES, CAPACITY = 24, 24, 350


class Actor:
    """Plays episodes and remembers them."""

    def __init__(self, is_bounded: bool) -> None:
        self.trace: Any = deque(maxlen=CAPACITY) if is_bounded else []

    def play(self, episodes: int) -> int:
        for _ in range(episodes):
            self.trace.append(np.ones(16 * 1024))
            np.sort(np.random.rand(60_000))
            time.sleep(0.02)  # a worker is looked into once a second at most
        return len(self.trace)


def act(orders: Connection, is_bounded: bool) -> None:
    actor = Actor(is_bounded)
    while episodes := orders.recv():
        orders.send(actor.play(episodes))


def main(method: str, is_bounded: bool) -> None:
    context: Any = multiprocessing.get_context(method)
    workers = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        worker = context.Process(target=act, args=(theirs, is_bounded))
        worker.start()
        workers.append((worker, ours))
    for iteration in range(ITERATIONS):
        for _, orders in workers:
            orders.send(EPISODES)
        for _, orders in workers:
            print(iteration, orders.recv())
    for worker, orders in workers:
        orders.send(0)
        worker.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "bounded")
