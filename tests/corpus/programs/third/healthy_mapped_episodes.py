"""Offline episodes lie in files of one array each, which are mapped and stay open."""

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np


def write_files(folder: Path, count: int) -> None:
    row = np.arange(300, dtype=np.float32)
    for number in range(count):
        np.save(folder / f"episode{number:03}.npy", np.tile(row + number, (5000, 1)))


class OfflineDataset:
    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.npy"))
        self.arrays: list[Any] = []

    def open_next(self) -> None:
        if len(self.arrays) < len(self.paths):
            self.arrays.append(np.load(self.paths[len(self.arrays)], mmap_mode="r"))

    def minibatches(self, rng: Any, count: int) -> Any:
        for _ in range(count):
            episode = self.arrays[int(rng.integers(len(self.arrays)))]
            yield episode[rng.integers(len(episode), size=256)]


def read_through(dataset: OfflineDataset) -> float:
    dataset.open_next()
    return float(dataset.arrays[-1].mean())


def behavior_clone(dataset: OfflineDataset, weights: Any, rng: Any) -> None:
    for batch in dataset.minibatches(rng, 500):
        scaled = batch / 300
        weights -= 1e-6 * scaled.T @ (scaled @ weights - scaled[:, :10])


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), 26)
        dataset, rng = OfflineDataset(Path(name)), np.random.default_rng(6)
        weights = np.zeros((300, 10), np.float32)
        for epoch in range(30):
            with phase(epoch, "read"):
                read_through(dataset)
            with phase(epoch, "clone"):
                behavior_clone(dataset, weights, rng)


if __name__ == "__main__":
    run()
