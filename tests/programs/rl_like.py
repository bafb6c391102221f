"""What a training's memory is made of, in numpy alone: a ring half filled, networks with Adam,
a leak of info dictionaries, fragments, threads, shared memory and a mapped file."""

from holding import hold, open_ledger, place_of

ledger = open_ledger()

import os  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
from multiprocessing import shared_memory  # noqa: E402
from typing import Any  # noqa: E402

# on busy cores its threads would only spin
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

SCALE = float(sys.argv[1]) if sys.argv[1:] and sys.argv[1][0].isdigit() else 1.0
CAPACITY = int(40_000 * SCALE)
STEPS = CAPACITY // 2
SHARED_BYTES = int(32 * SCALE) << 20
FRAGMENTS, FRAGMENT_FLOATS = int(600 * SCALE), 12_500
UPDATE_EVERY, BATCH = 100, 32
Array = np.ndarray[Any, Any]


class Replay:
    """A ring of frames, allocated whole and filled as the training goes."""

    def __init__(self, capacity: int) -> None:
        self.observations = np.zeros((capacity, 64, 64), np.uint8)
        self.rewards = np.zeros(capacity, np.float32)
        self.pos = 0
        self.full = False
        self.buffer_size = capacity

    def add(self, frame: Array, reward: float) -> None:
        self.observations[self.pos] = frame
        self.rewards[self.pos] = reward
        self.pos += 1

    def sample(self, random: np.random.Generator) -> tuple[Array, Array]:
        rows = random.integers(0, self.pos, BATCH)
        frames = self.observations[rows].reshape(BATCH, -1).astype(np.float32)
        return frames / 255, self.rewards[rows, None]


class Network:
    """Two layers and Adam, by hand."""

    def __init__(self, random: np.random.Generator) -> None:
        self.weights = [
            random.standard_normal((64 * 64, 64), np.float32) * np.float32(0.01),
            random.standard_normal((64, 1), np.float32) * np.float32(0.1),
        ]
        self.first_moments = [np.zeros_like(w) for w in self.weights]
        self.second_moments = [np.zeros_like(w) for w in self.weights]

    def update(self, frames: Array, targets: Array) -> None:
        hidden = np.maximum(frames @ self.weights[0], 0)
        error = (hidden @ self.weights[1] - targets) / BATCH
        gradients = [frames.T @ ((error @ self.weights[1].T) * (hidden > 0)), hidden.T @ error]
        for weight, gradient, first, second in zip(
            self.weights, gradients, self.first_moments, self.second_moments, strict=True
        ):
            first += np.float32(0.1) * (gradient - first)
            second += np.float32(0.001) * (gradient * gradient - second)
            weight -= np.float32(1e-3) * first / (np.sqrt(second) + np.float32(1e-8))


def train(replay: Replay, network: Network, infos: list[dict[str, Any]]) -> None:
    random = np.random.default_rng(0)
    for step in range(STEPS):
        frame = random.integers(1, 255, (64, 64), np.uint8)
        replay.add(frame, float(step % 7))
        infos.append({"step": step, "reward": float(step), "values": np.full(64, float(step))})
        if step % UPDATE_EVERY == UPDATE_EVERY - 1:
            network.update(*replay.sample(random))


def fragments() -> list[Array]:
    """Every second block of a heap is given back, and stays with the allocator."""
    return [np.ones(FRAGMENT_FLOATS) for _ in range(FRAGMENTS)][::2]


def main() -> None:
    wake = threading.Event()
    threads = [threading.Thread(target=wake.wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    shared = shared_memory.SharedMemory(create=True, size=SHARED_BYTES)
    np.ndarray(SHARED_BYTES, np.uint8, shared.buf)[:] = 1
    with tempfile.NamedTemporaryFile(prefix="dataset-") as file:
        dataset = np.memmap(file.name, np.uint8, "w+", shape=(SHARED_BYTES,))
        dataset[:] = 1
        kept = fragments()
        replay = Replay(CAPACITY)
        network = Network(np.random.default_rng(0))
        infos: list[dict[str, Any]] = []
        train(replay, network, infos)
        if ledger is not None:
            ledger.claim("replay", replay)
            ledger.claim("networks", network)
        truth = {
            "arrays": {"observations": place_of(replay.observations)},
            "fill": STEPS / CAPACITY,
            "leaked": len(infos),
            "shared_bytes": SHARED_BYTES,
        }
        roots = {"replay": replay, "network": network, "infos": infos, "kept": kept}
        hold(truth, ledger, roots)
        del dataset
    shared.close()
    shared.unlink()


main()
