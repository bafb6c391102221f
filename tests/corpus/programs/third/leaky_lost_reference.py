"""A decoder in C adds one reference too many to each frame, so that no frame is ever freed."""

import ctypes
import zlib
from contextlib import nullcontext
from typing import Any

import numpy as np

# what a binding does that forgets Py_DECREF, as numpy 1.16.0 did when it unpickled
ADD_REFERENCE = ctypes.pythonapi.Py_IncRef
ADD_REFERENCE.argtypes = [ctypes.py_object]


class RemoteEmulator:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.canvas = np.zeros((84, 84, 3), np.uint8)

    def receive(self) -> bytes:
        row = int(self.rng.integers(80))
        self.canvas[row : row + 4] = self.rng.integers(0, 255, (4, 84, 3))
        return zlib.compress(self.canvas.tobytes(), 1)


def decode(packet: bytes) -> Any:
    frame = np.frombuffer(zlib.decompress(packet), np.uint8).reshape(84, 84, 3).copy()
    ADD_REFERENCE(frame)
    return frame


def rollout(emulator: RemoteEmulator, weights: Any, steps: int) -> float:
    total = 0.0
    for _ in range(steps):
        frame = decode(emulator.receive())
        total += float(frame[::6, ::6].astype(np.float32).ravel() @ weights)
    return total


def optimize(weights: Any, rng: Any) -> None:
    noise = rng.standard_normal((400, weights.size)).astype(np.float32)
    for _ in range(20):
        weights += 1e-4 * (noise.T @ np.tanh(noise @ weights)) / len(noise)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    emulator, rng = RemoteEmulator(6), np.random.default_rng(7)
    weights = np.zeros(14 * 14 * 3, np.float32)
    for generation in range(25):
        with phase(generation, "optimize"):
            optimize(weights, rng)
        with phase(generation, "rollout"):
            rollout(emulator, weights, 250)


if __name__ == "__main__":
    run()
