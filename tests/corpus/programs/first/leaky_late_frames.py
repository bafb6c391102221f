"""From generation 10 on, evaluation videos are recorded and kept."""

import time
from contextlib import nullcontext
from typing import Any

import numpy as np


class Recorder:
    def __init__(self) -> None:
        self.videos: list[list[Any]] = []

    def record(self, generation: int) -> None:
        video = []
        for frame in range(80):
            video.append(np.full((128, 256, 4), (generation + frame) % 255, np.uint8))
            time.sleep(0.001)
        if generation >= 10:
            self.videos.append(video)


def evaluate(recorder: Recorder, generation: int) -> None:
    recorder.record(generation)


def train() -> Any:
    return np.fft.fft(np.ones(1 << 18))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    recorder = Recorder()
    for generation in range(26):
        with phase(generation, "train"):
            for _ in range(6):
                train()
        with phase(generation, "evaluate"):
            evaluate(recorder, generation)


if __name__ == "__main__":
    run()
