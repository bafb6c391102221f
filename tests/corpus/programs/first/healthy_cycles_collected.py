"""Episodes are cycles of objects; the collector frees them now and then."""

import gc
import time
from contextlib import nullcontext
from typing import Any


class Node:
    def __init__(self) -> None:
        self.state = bytearray(b"s") * (96 << 10)
        self.next: Any = None
        self.previous: Any = None


def search(nodes: int) -> None:
    first = last = Node()
    for _ in range(nodes):
        node = Node()
        last.next, node.previous = node, last
        last = node
    last.next = first


def decide(generation: int) -> int:
    if generation % 5 == 4:
        gc.collect()
    time.sleep(0.1)
    return sum(i % 3 for i in range(500_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    gc.disable()
    for generation in range(25):
        with phase(generation, "search"):
            search(90)
        with phase(generation, "decide"):
            decide(generation)
    gc.enable()


if __name__ == "__main__":
    run()
