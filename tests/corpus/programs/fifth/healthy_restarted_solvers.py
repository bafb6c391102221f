"""Worker processes remember solved knapsacks and are replaced by new ones every fourth
generation.
"""

import multiprocessing
from contextlib import nullcontext
from typing import Any

import numpy as np

ITEMS, CAPACITY = 60, 4000


def solve(values: Any, weights: Any) -> Any:
    best = np.zeros((ITEMS + 1, CAPACITY + 1), np.float32)
    for item in range(ITEMS):
        weight = int(weights[item])
        best[item + 1] = best[item]
        taken = best[item, : CAPACITY + 1 - weight] + values[item]
        np.maximum(best[item + 1, weight:], taken, out=best[item + 1, weight:])
    return best


def work(connection: Any, seed: int) -> None:
    rng, tables = np.random.default_rng(seed), {}
    while (request := connection.recv()) is not None:
        scores = []
        for number in range(request["instances"]):
            values = rng.random(ITEMS) * request["prices"]
            weights = rng.integers(20, 300, ITEMS)
            tables[len(tables)] = table = solve(values, weights)
            order = np.argsort(-values / weights ** request["exponent"])
            chosen = order[np.cumsum(weights[order]) <= CAPACITY]
            scores.append(float(values[chosen].sum() / table[-1, -1]))
            for markup in np.linspace(1.0, 2.0, 12):
                scores[-1] += 0.01 * float(solve(values**markup, weights)[-1, -1] > number)
        connection.send(scores)


class Workers:
    def __init__(self, size: int) -> None:
        self.context = multiprocessing.get_context("fork")
        self.size = size
        self.members: list[Any] = []

    def restart(self, generation: int) -> None:
        self.stop()
        for place in range(self.size):
            ours, theirs = self.context.Pipe()
            seed = generation * 10 + place
            process = self.context.Process(target=work, args=(theirs, seed), daemon=True)
            process.start()
            self.members.append((process, ours))

    def ask(self, requests: list[dict[str, Any]]) -> list[float]:
        for (_, connection), request in zip(self.members, requests, strict=True):
            connection.send(request)
        return [float(np.mean(connection.recv())) for _, connection in self.members]

    def stop(self) -> None:
        for process, connection in self.members:
            connection.send(None)
            process.join()
            connection.close()
        self.members.clear()


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, exponent, workers = np.random.default_rng(0), 0.3, Workers(2)
    for generation in range(32):
        with phase(generation, "prepare"):
            if generation % 4 == 0:
                workers.restart(generation)
            tries = exponent + 0.1 * rng.standard_normal(2)
            prices = 1.0 + rng.random(ITEMS)
        with phase(generation, "solve"):
            requests = [{"instances": 24, "prices": prices, "exponent": row} for row in tries]
            scores = workers.ask(requests)
        with phase(generation, "learn"):
            exponent += 0.5 * (tries[int(np.argmax(scores))] - exponent)
    workers.stop()


if __name__ == "__main__":
    run()
