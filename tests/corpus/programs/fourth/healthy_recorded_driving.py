"""Recorded drives are read from a mapped file, a further part of it in each of 24 generations."""

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

DRIVES, LENGTH, FEATURES = 24, 4000, 640


def write_recordings(path: Path) -> None:
    torch.manual_seed(2)
    lidar = torch.zeros(DRIVES, LENGTH, FEATURES, dtype=torch.float32)
    for drive in range(DRIVES):
        lidar[drive] = torch.randn(LENGTH, 1) + torch.linspace(0, 1, FEATURES)
    steering = torch.sin(lidar[:, :, 0]) + 0.1 * torch.randn(DRIVES, LENGTH)
    torch.save({"lidar": lidar, "steering": steering}, path)


class Driver(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.eye = nn.Sequential(nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, 64))
        self.wheel = nn.Linear(64, 1)

    def forward(self, lidar: Any) -> Any:
        return self.wheel(torch.relu(self.eye(lidar))).squeeze(-1)


def batches(recordings: dict[str, Any], drive: int, size: int) -> Any:
    for start in range(0, LENGTH, size):
        rows = slice(start, start + size)
        yield recordings["lidar"][drive, rows], recordings["steering"][drive, rows]


def clone(driver: Driver, optimizer: Any, recordings: dict[str, Any], drive: int) -> None:
    for _ in range(6):
        for lidar, steering in batches(recordings, drive, 250):
            loss = (driver(lidar) - steering).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def evaluate(driver: Driver, steps: int = 150) -> float:
    lidar, total = torch.randn(32, FEATURES), 0.0
    with torch.no_grad():
        for _ in range(steps):
            turn = driver(lidar)
            lidar = 0.9 * lidar.roll(1, dims=1) + 0.1 * turn[:, None]
            total += float(turn.abs().mean())
    return total / steps


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drives.pt"
        write_recordings(path)
        recordings = torch.load(path, mmap=True)
        driver = Driver()
        optimizer = torch.optim.SGD(driver.parameters(), 1e-4)
        for generation in range(34):
            with phase(generation, "clone"):
                clone(driver, optimizer, recordings, generation % DRIVES)
            with phase(generation, "evaluate"):
                evaluate(driver)


if __name__ == "__main__":
    run()
