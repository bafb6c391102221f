"""Short-lived messages of ever other sizes; one receipt in each pool keeps its pages."""

import time
from contextlib import nullcontext
from typing import Any

RECEIPTS: list[bytes] = []
POOL_BYTES = 16_384


def exchange(generation: int) -> None:
    size = 48 + 16 * generation  # each its own size class of Python's allocator
    messages = [bytes(size - 40) for _ in range(10 * 2**20 // size)]
    RECEIPTS.extend(messages[:: POOL_BYTES // size])
    del messages
    time.sleep(0.05)


def digest() -> int:
    total = 0
    for i in range(900_000):
        total ^= i
    return total


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for generation in range(20):
        with phase(generation, "exchange"):
            exchange(generation)
        with phase(generation, "digest"):
            digest()


if __name__ == "__main__":
    run()
