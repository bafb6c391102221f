"""Orders on halted symbols wait for a reopening that never comes,
each with the books it has seen.
"""

import asyncio
from contextlib import nullcontext
from typing import Any

import numpy as np

SYMBOLS, LEVELS, PATIENCE = 40, 80, 16


class Venue:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.reopened = asyncio.Event()
        self.prices = np.full(SYMBOLS, 50.0)

    def halted(self, symbol: int, step: int) -> bool:
        return symbol % 8 == 0 and step == 12

    def depth(self) -> Any:
        return self.prices[:, None] + self.rng.normal(0.0, 0.02, (SYMBOLS, LEVELS)).cumsum(axis=1)

    async def tick(self) -> None:
        self.prices += self.rng.normal(0.0, 0.05, SYMBOLS)
        await asyncio.sleep(0)


async def work_order(venue: Venue, symbol: int, policy: Any) -> tuple[Any, float]:
    books = []
    gain = 0.0
    for step in range(PATIENCE):
        books.append(venue.depth())
        urgency = float(np.tanh(books[-1][symbol] @ policy))
        if venue.halted(symbol, step):
            await venue.reopened.wait()
        await venue.tick()
        gain += urgency * float(venue.prices[symbol] - books[-1][symbol, 0])
    return np.mean([book[symbol] for book in books], axis=0), gain


async def session(venue: Venue, policy: Any) -> list[tuple[Any, float]]:
    results = []
    for start in range(16):
        symbols = range(start % 2, SYMBOLS, 2)
        orders = [asyncio.create_task(work_order(venue, symbol, policy)) for symbol in symbols]
        for _ in range(PATIENCE + 2):
            await venue.tick()
        results += [order.result() for order in orders if order.done()]
    return results


class Trader:
    def __init__(self) -> None:
        self.venue = Venue(17)
        self.policy = np.zeros(LEVELS)

    def trade(self, runner: asyncio.Runner) -> list[tuple[Any, float]]:
        return runner.run(session(self.venue, self.policy))

    def update(self, results: list[tuple[Any, float]]) -> None:
        for shape, gain in results:
            self.policy += 1e-5 * gain * (shape - shape.mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    trader = Trader()
    with asyncio.Runner() as runner:
        for generation in range(26):
            with phase(generation, "trade"):
                results = trader.trade(runner)
            with phase(generation, "update"):
                trader.update(results)


if __name__ == "__main__":
    run()
