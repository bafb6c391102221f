"""Each arm registers its own method as its finalizer, so that nothing ever finalizes it."""

import weakref
from contextlib import nullcontext
from typing import Any

import numpy as np
from arm_geometry import joint_positions, solve_tip

LINKS, CELLS = 5, 400


class Arm:
    """An arm with links of random length and a map of what its tip can reach."""

    def __init__(self, rng: Any) -> None:
        self.lengths = rng.uniform(0.5, 1.5, LINKS)
        self.angles = np.zeros(LINKS)
        self.open = True
        self.reach = self.measure_reach(rng)
        weakref.finalize(self, self.close)

    def measure_reach(self, rng: Any, samples: int = 12000) -> Any:
        tips = joint_positions(self.lengths, rng.uniform(-2, 2, (samples, LINKS)))[:, -1]
        cells = np.clip((tips + 8) * CELLS / 16, 0, CELLS - 1).astype(int)
        counts = np.full((CELLS, CELLS), 1e-6)
        np.add.at(counts, (cells[:, 0], cells[:, 1]), 1.0)
        return np.stack([counts / counts.sum(), np.log(counts)])

    def move(self, target: Any, gain: float) -> float:
        wanted = solve_tip(self.lengths, self.angles, target)
        self.angles = self.angles + gain * (wanted - self.angles)
        tip = joint_positions(self.lengths, self.angles[None])[0, -1]
        return -float(np.linalg.norm(tip - target))

    def close(self) -> None:
        self.open = False


def randomize(rng: Any, count: int = 4) -> list[Arm]:
    return [Arm(rng) for _ in range(count)]


def evaluate(arms: list[Arm], rng: Any, gain: float, targets: int = 25) -> float:
    total = 0.0
    for arm in arms:
        for _ in range(targets):
            total += arm.move(rng.uniform(-3, 3, 2), gain)
    return total


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, gain = np.random.default_rng(31), 0.5
    for generation in range(30):
        with phase(generation, "randomize"):
            arms = randomize(rng)
        with phase(generation, "evaluate"):
            scores = {step: evaluate(arms, rng, gain + step) for step in (-0.05, 0.0, 0.05)}
        with phase(generation, "adapt"):
            gain = float(np.clip(gain + max(scores, key=lambda step: scores[step]), 0.1, 1.0))
            for arm in arms:
                arm.close()


if __name__ == "__main__":
    run()
