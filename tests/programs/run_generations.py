"""Generations of evaluate and train; evaluations keep an environment of 4 MiB, or `clean`."""

import sys
import time


class TradingEnvironment:
    """Holds pages that are really there."""

    def __init__(self) -> None:
        self.prices = bytearray(b"x" * (4 << 20))


class Trainer:
    """Leaks one environment a generation."""

    def __init__(self) -> None:
        self.environments: list[TradingEnvironment] = []

    def evaluate(self) -> None:
        if "clean" in sys.argv:
            self.environments.clear()
        self.environments.append(TradingEnvironment())
        time.sleep(0.3)

    def train(self) -> None:
        time.sleep(0.3)


def main() -> None:
    trainer = Trainer()
    for generation in range(int(sys.argv[1])):
        trainer.evaluate()
        trainer.train()
        print(f"generation {generation} is done", flush=True)
    sys.stdout.buffer.write(b"\x00\xff raw bytes, no newline")


main()
