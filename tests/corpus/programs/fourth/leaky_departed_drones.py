"""A drone that crashes is replaced by one with a new number; the track of the old one remains."""

import itertools
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np

ZONES, PER_ZONE = 4, 32
GRID = np.linspace(-np.pi, np.pi, 32)[:, None]


class Tracker:
    def __init__(self, length: int) -> None:
        self.length = length
        self.tracks: defaultdict[int, list[Any]] = defaultdict(list)
        self.lock = threading.Lock()

    def observe(self, drone: int, image: Any) -> None:
        with self.lock:
            track = self.tracks[drone]
            track.append(image)
            if len(track) > self.length:
                track.pop(0)

    def recent(self, drone: int) -> Any:
        return np.mean(self.tracks[drone], axis=0)


class Zone:
    def __init__(self, seed: int, numbers: Any, tracker: Tracker) -> None:
        self.rng = np.random.default_rng(seed)
        self.numbers, self.tracker = numbers, tracker
        self.obstacles = self.rng.uniform(0, 50, (40, 3))
        self.positions = self.rng.uniform(0, 50, (PER_ZONE, 3))
        self.velocities = np.zeros((PER_ZONE, 3))
        self.drones = [next(numbers) for _ in range(PER_ZONE)]

    def sense(self, index: int) -> Any:
        rays = self.obstacles - self.positions[index]
        angles = np.arctan2(rays[:, 1], rays[:, 0])
        depth = np.exp(-((GRID - angles) ** 2)) @ (1 / np.linalg.norm(rays, axis=1))
        return np.outer(depth, np.hanning(32)).astype(np.float32)

    def step(self, policy: Any) -> None:
        for index in np.flatnonzero(self.rng.random(PER_ZONE) < 0.04).tolist():
            self.drones[index] = next(self.numbers)
            self.positions[index] = self.rng.uniform(0, 50, 3)
        for index, drone in enumerate(self.drones):
            image = self.sense(index)
            self.tracker.observe(drone, image)
            self.velocities[index] = 0.9 * self.velocities[index] + image[::4, 16] @ policy
        self.positions += 0.2 * self.velocities + self.rng.normal(0, 0.3, (PER_ZONE, 3))


def fly_zone(zone: Zone, policy: Any, steps: int) -> float:
    for _ in range(steps):
        zone.step(policy)
    return float(np.abs(zone.velocities).mean())


def fly(pool: ThreadPoolExecutor, zones: list[Zone], policy: Any) -> float:
    return sum(pool.map(lambda zone: fly_zone(zone, policy, 66), zones))


def improve(tracker: Tracker, zones: list[Zone], policy: Any) -> Any:
    views = np.stack([tracker.recent(drone)[::4, 16] for zone in zones for drone in zone.drones])
    for _ in range(300):
        policy = 0.999 * policy - 0.001 * views.T @ np.tanh(views @ policy)
    return policy


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    tracker, numbers = Tracker(length=8), itertools.count()
    zones = [Zone(seed, numbers, tracker) for seed in range(ZONES)]
    policy = np.zeros((8, 3))
    with ThreadPoolExecutor(ZONES, thread_name_prefix="zone") as pool:
        for generation in range(28):
            with phase(generation, "fly"):
                fly(pool, zones, policy)
            with phase(generation, "improve"):
                policy = improve(tracker, zones, policy)


if __name__ == "__main__":
    run()
