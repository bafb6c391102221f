"""The native timetable of an episode is freed when the shop finishes, not when time runs out."""

import ctypes
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

libc = ctypes.CDLL(None)
libc.calloc.restype = ctypes.c_void_p
libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


class JobShop(gym.Env):
    """Twelve machines, a queue of jobs: pick the machine for the next job."""

    machines, horizon = 12, 200

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, np.inf, (self.machines + 1,), np.float64)
        self.action_space = spaces.Discrete(self.machines)
        self.address: Any = None

    def timetable(self) -> Any:
        self.address = libc.calloc(self.machines * self.horizon, 4)
        cells = ctypes.c_float * (self.machines * self.horizon)
        table = np.frombuffer(cells.from_address(self.address), np.float32)
        return table.reshape(self.machines, self.horizon)

    def observe(self) -> Any:
        return np.append(self.ready, self.job)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.slots = self.timetable()
        self.ready = np.zeros(self.machines)
        self.left = int(self.np_random.integers(40, 180))
        self.clock, self.job = 0, self.np_random.exponential(12.0)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        start = int(max(self.ready[action], self.clock))
        end = min(int(start + self.job) + 1, self.horizon)
        self.slots[action, start:end] = self.job
        self.ready[action] = end
        self.clock, self.left = self.clock + 1, self.left - 1
        self.job = self.np_random.exponential(12.0)
        finished, late = self.left == 0, self.clock >= 100
        if finished:
            del self.slots
            libc.free(self.address)
        return self.observe(), -float(start - self.clock), finished, late, {}


def rollout(env: JobShop, weights: Any, rng: Any) -> tuple[Any, float]:
    observation, _ = env.reset(seed=int(rng.integers(1 << 30)))
    trace, total, over = np.zeros(env.machines), 0.0, False
    while not over:
        scores = -weights * observation[:-1] + rng.gumbel(size=env.machines)
        action = int(scores.argmax())
        trace[action] += 1.0
        observation, reward, finished, late, _ = env.step(action)
        total += reward
        over = finished or late
    return trace / trace.sum(), total


def improve(weights: Any, results: list[tuple[Any, float]]) -> Any:
    traces = np.stack([trace for trace, _ in results])
    totals = np.array([total for _, total in results])
    scaled = (totals - totals.mean()) / (totals.std() + 1e-6)
    return np.clip(weights - 0.05 * scaled @ (traces - traces.mean(axis=0)), 0.0, 3.0)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    env, rng, weights = JobShop(), np.random.default_rng(9), np.full(JobShop.machines, 0.1)
    for generation in range(28):
        with phase(generation, "rollout"):
            results = [rollout(env, weights, rng) for _ in range(460)]
        with phase(generation, "improve"):
            weights = improve(weights, results)


if __name__ == "__main__":
    run()
