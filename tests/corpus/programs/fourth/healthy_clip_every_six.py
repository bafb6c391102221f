"""Frames of the evaluations are gathered, and every sixth generation written out and dropped."""

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

SIDE = 84


class Breakout:
    def __init__(self, seed: int) -> None:
        self.rng, self.listeners = np.random.default_rng(seed), list[Callable[[Any], None]]()
        self.reset()

    def reset(self) -> None:
        self.bricks = np.ones((6, 12), bool)
        self.paddle, self.ball = 40, np.array([42.0, 50.0])
        self.motion = np.array([self.rng.uniform(-1, 1), -1.5])

    def screen(self) -> Any:
        image = np.zeros((SIDE, SIDE, 3), np.uint8)
        image[10:28, :, 0] = np.kron(self.bricks, np.full((3, 7), 150))
        column, row = self.ball.astype(int)
        image[row - 1 : row + 2, column - 1 : column + 2] = 255
        image[80:82, self.paddle - 6 : self.paddle + 6, 2] = 200
        return image

    def step(self, move: int) -> float:
        self.paddle = int(np.clip(self.paddle + 3 * move, 8, SIDE - 8))
        self.ball = self.ball + self.motion
        for axis in (0, 1):
            if not 2 < self.ball[axis] < SIDE - 3:
                self.motion[axis] *= -1
        self.ball = np.clip(self.ball, 2, SIDE - 3)
        row, column = int(self.ball[1] - 10) // 3, int(self.ball[0]) // 7
        if hit := 0 <= row < 6 and bool(self.bricks[row, column]):
            self.bricks[row, column] = False
            self.motion[1] *= -1
        for listener in self.listeners:
            listener(self.screen())
        return float(hit)


class ClipWriter:
    def __init__(self, folder: Path) -> None:
        self.folder, self.clips, self.filled = folder, list[Any](), 0

    def start(self, frames: int) -> None:
        self.clips.append(np.zeros((frames, SIDE, SIDE, 3), np.uint8))
        self.filled = 0

    def capture(self, frame: Any) -> None:
        self.clips[-1][self.filled] = frame
        self.filled += 1

    def flush(self) -> None:
        for number, clip in enumerate(self.clips):
            np.save(self.folder / f"latest-{number}.npy", clip)
        self.clips.clear()


def play(game: Breakout, weights: Any, steps: int) -> float:
    game.reset()
    score = 0.0
    for _ in range(steps):
        seen = np.array([game.ball[0] - game.paddle, *game.motion, 1.0])
        score += game.step(int(np.sign(weights @ seen)))
    return score


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, weights = np.random.default_rng(6), np.zeros(4)
    practice, shown = Breakout(1), Breakout(2)
    with tempfile.TemporaryDirectory() as folder:
        clips = ClipWriter(Path(folder))
        shown.listeners.append(clips.capture)
        for generation in range(36):
            with phase(generation, "practice"):
                tries = [weights + rng.normal(0, 0.3, 4) for _ in range(8)]
                weights = max(tries, key=lambda tried: play(practice, tried, 1300))
            with phase(generation, "evaluate"):
                clips.start(1800)
                play(shown, weights, 1800)
            if generation % 6 == 5:
                with phase(generation, "clip"):
                    clips.flush()


if __name__ == "__main__":
    run()
