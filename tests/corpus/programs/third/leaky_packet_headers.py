"""Eight numbers of each packet are kept as an array over it, and so the packet is kept too."""

import struct
import zlib
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

HEADER = struct.Struct("<8d")


class Packet(NamedTuple):
    header: Any
    frames: Any


class Statistics:
    def __init__(self) -> None:
        self.rows: list[Any] = []

    def add(self, row: Any) -> None:
        self.rows.append(row)

    def mean(self) -> float:
        return float(np.mean(self.rows))


def encode(rng: Any, worker: int) -> bytes:
    frames = np.repeat(rng.integers(0, 255, (64, 32), np.uint8), 1024, axis=0)
    return zlib.compress(HEADER.pack(*rng.random(8)) + frames.tobytes() + bytes([worker]), 1)


def parse(message: bytes) -> Packet:
    payload = zlib.decompress(message)
    header = np.frombuffer(payload, np.float64, count=8)
    frames = np.frombuffer(payload, np.uint8, count=64 * 32 * 1024, offset=HEADER.size)
    return Packet(header, frames.reshape(64, 32, 1024))


def receive(rng: Any, statistics: Statistics) -> Any:
    features = []
    for worker in range(4):
        packet = parse(encode(rng, worker))
        statistics.add(packet.header)
        features.append(packet.frames[:, :, ::64].mean(axis=(1, 2)))
    return np.stack(features)


def regress(features: Any, statistics: Statistics) -> float:
    waves = np.sin(np.outer(np.arange(features.shape[1]), np.arange(500)))
    lifted = np.tanh(features @ waves)
    gram = lifted.T @ lifted + np.eye(500)
    for _ in range(24):
        gram = gram @ gram / np.linalg.norm(gram)
    return float(np.trace(gram)) + statistics.mean()


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, statistics = np.random.default_rng(14), Statistics()
    for generation in range(26):
        with phase(generation, "receive"):
            features = receive(rng, statistics)
        with phase(generation, "regress"):
            regress(features, statistics)


if __name__ == "__main__":
    run()
