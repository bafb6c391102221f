"""From generation 7 joint limits are met, and each report keeps the frame of whoever met them."""

import inspect
from contextlib import nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

JOINTS, STEPS, BATCH, LIMIT = 12, 400, 128, 2.6


@dataclass
class Violation:
    joint: int
    step: int
    caller: FrameType | None

    def describe(self) -> str:
        where = self.caller.f_code.co_name if self.caller else "unknown"
        return f"joint {self.joint} over its limit at step {self.step} of {where}"


class JointLimits:
    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.violations: list[Violation] = []

    def check(self, angles: Any) -> None:
        over = np.argwhere(np.abs(angles).max(axis=0) > self.limit)
        if len(over):
            step, joint = over[0]
            caller = inspect.currentframe()
            caller = caller.f_back if caller else None
            self.violations.append(Violation(int(joint), int(step), caller))


def stiffness(generation: int) -> float:
    return 0.55 if generation < 7 else 1.4


def simulate(rng: Any, gains: Any, strength: float, limits: JointLimits) -> Any:
    angles = np.zeros((BATCH, STEPS, JOINTS), np.float32)
    velocity = np.zeros((BATCH, JOINTS))
    for step in range(1, STEPS):
        push = np.clip(rng.normal(0, 1, (BATCH, JOINTS)), -2.5, 2.5)
        velocity = 0.8 * velocity + 0.12 * strength * push - 0.02 * angles[:, step - 1] @ gains
        angles[:, step] = np.clip(0.97 * angles[:, step - 1] + 0.5 * velocity, -3, 3)
    torques = np.diff(angles, axis=1) * np.float32(strength)
    limits.check(angles)
    return angles[:, -1].mean(axis=0), float(np.square(torques).mean())


def rollout(rng: Any, gains: Any, generation: int, limits: JointLimits) -> list[Any]:
    return [simulate(rng, gains, stiffness(generation), limits) for _ in range(4)]


def update(gains: Any, results: list[Any]) -> Any:
    for final, effort in results:
        gains = gains + 0.001 * np.outer(final, final) - 1e-5 * effort * gains
    return gains


def settle(rng: Any, gains: Any, steps: int = 14000) -> float:
    pose = rng.normal(0, 1, (64, JOINTS))
    for _ in range(steps):
        pose = pose - 0.01 * np.tanh(pose) @ gains + rng.normal(0, 0.001, pose.shape)
    return float(np.abs(pose).mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng, gains, limits = np.random.default_rng(9), np.eye(JOINTS), JointLimits(LIMIT)
    for generation in range(28):
        with phase(generation, "rollout"):
            results = rollout(rng, gains, generation, limits)
        with phase(generation, "update"):
            gains = update(gains, results)
        with phase(generation, "evaluate"):
            settle(rng, gains)
            sorted({violation.describe() for violation in limits.violations[-20:]})


if __name__ == "__main__":
    run()
