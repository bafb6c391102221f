"""Aligned buffers for laser scans are given back only when the drone lands well."""

import ctypes
from contextlib import nullcontext
from typing import Any

import numpy as np

libc = ctypes.CDLL(None)
libc.posix_memalign.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


class AlignedScan:
    def __init__(self, points: int) -> None:
        self.points = points
        self.address = ctypes.c_void_p()

    def borrow(self) -> Any:
        libc.posix_memalign(ctypes.byref(self.address), 64, 8 * 3 * self.points)
        block = (ctypes.c_double * (3 * self.points)).from_address(self.address.value)
        return np.ctypeslib.as_array(block).reshape(self.points, 3)

    def give_back(self) -> None:
        libc.free(self.address)


class Drone:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.gain = np.zeros(3)

    def scan(self, points: int) -> tuple[AlignedScan, Any]:
        buffer = AlignedScan(points)
        cloud = buffer.borrow()
        cloud[:] = self.rng.normal(size=(points, 3))
        return buffer, cloud

    def steer(self, cloud: Any, steps: int) -> tuple[float, bool]:
        place = np.zeros(3)
        for step in range(steps):
            near = cloud[step::50]
            away = near - place
            push = away / (1.0 + (away**2).sum(axis=1, keepdims=True))
            place = place - 0.05 * push.mean(axis=0) + 0.01 * self.gain
        height = float(place @ self.gain + self.rng.normal())
        return height, height > 0.0


def survey(drone: Drone, flights: int) -> list[float]:
    heights = []
    for _ in range(flights):
        buffer, cloud = drone.scan(6500)
        height, landed = drone.steer(cloud, 50)
        heights.append(height)
        if not landed:
            continue
        buffer.give_back()
    return heights


def tune(drone: Drone, heights: list[float]) -> None:
    drone.gain = 0.9 * drone.gain + 0.01 * np.std(heights) * drone.rng.normal(size=3)


def rehearse(drone: Drone) -> float:
    waves = drone.rng.normal(size=(600, 600))
    for _ in range(12):
        waves = np.tanh(waves @ waves / 600)
    return float(waves.sum())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    drone = Drone(seed=21)
    for generation in range(30):
        with phase(generation, "survey"):
            heights = survey(drone, 60)
        with phase(generation, "tune"):
            tune(drone, heights)
        with phase(generation, "rehearse"):
            rehearse(drone)


if __name__ == "__main__":
    run()
