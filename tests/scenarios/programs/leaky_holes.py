"""Short-lived messages get a bit longer each time, and a small receipt of each stays between.

expected:
  leak: yes
  phase: exchange
  function: exchange
  culprit: malloc, allocator
  cause: allocator-retention
  mib_per_generation: 12
  onset: 0
"""

import time
from contextlib import nullcontext
from typing import Any

RECEIPTS: list[bytearray] = []


def exchange(generation: int) -> None:
    messages = []
    for _ in range(110):
        messages.append(bytearray(b"x") * (100_000 + 1300 * generation))
        RECEIPTS.append(bytearray(b"r") * 700)
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
