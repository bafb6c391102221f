"""Simulator processes collect caches while they run and are replaced every fourth generation."""

from contextlib import nullcontext
from multiprocessing import get_context
from typing import Any

import numpy as np

CONTEXT = get_context("fork")
WORKERS, LIFETIME = 2, 4


class GraspSimulator:
    """Tries grasps on random objects and caches the shape of each object."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shapes: dict[int, Any] = {}

    def shape(self, number: int) -> Any:
        if number not in self.shapes:
            points = self.rng.normal(0, 1, (9000, 3))
            self.shapes[number] = points / np.linalg.norm(points, axis=1)[:, None]
        return self.shapes[number]

    def grasp(self, policy: Any, number: int) -> float:
        points = self.shape(number)
        fingers = np.tanh(policy @ points[:60].reshape(-1)[:12]).reshape(3, 3)
        for _ in range(7):
            gaps = points[:, None, :] - fingers[None, :, :]
            nearest = np.square(gaps).sum(axis=2).argmin(axis=0)
            fingers = 0.8 * fingers + 0.2 * points[nearest]
        return float(-np.abs(np.cross(fingers[0], fingers[1])).sum())


def serve(connection: Any, seed: int) -> None:
    simulator, number = GraspSimulator(seed), 0
    while (policy := connection.recv()) is not None:
        total = 0.0
        for _ in range(22):
            total += simulator.grasp(policy, number)
            number += 1
        connection.send(total)


class Fleet:
    def __init__(self) -> None:
        self.members: list[Any] = []
        self.started = 0

    def start(self) -> None:
        for _ in range(WORKERS):
            ours, theirs = CONTEXT.Pipe()
            process = CONTEXT.Process(target=serve, args=(theirs, self.started), daemon=True)
            process.start()
            theirs.close()
            self.started += 1
            self.members.append((process, ours))

    def stop(self) -> None:
        for process, connection in self.members:
            connection.send(None)
            process.join()
            connection.close()
        self.members.clear()

    def evaluate(self, policies: list[Any]) -> list[float]:
        for (_, connection), policy in zip(self.members, policies, strict=True):
            connection.send(policy)
        return [connection.recv() for _, connection in self.members]


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, policy, fleet = np.random.default_rng(17), np.zeros((9, 12)), Fleet()
    for generation in range(32):
        with phase(generation, "workers"):
            if generation % LIFETIME == 0:
                fleet.stop()
                fleet.start()
        with phase(generation, "evaluate"):
            noise = rng.normal(0, 0.1, policy.shape)
            scores = fleet.evaluate([policy + noise, policy - noise])
        with phase(generation, "update"):
            policy = policy + 0.05 * np.sign(scores[0] - scores[1]) * noise
    fleet.stop()


if __name__ == "__main__":
    run()
