"""Plans are cached up to a limit; when it is reached, the older half of the plans is dropped."""

from collections import OrderedDict
from contextlib import nullcontext
from typing import Any

import numpy as np

HORIZON, CANDIDATES, LIMIT = 96, 40, 1500


class LatentModel:
    """A small world model that was trained before."""

    def __init__(self, rng: Any) -> None:
        self.inner = rng.normal(0, 0.4, (26, 64))
        self.outer = rng.normal(0, 0.2, (64, 24))
        self.reward = rng.normal(0, 0.2, 24)

    def imagine(self, start: Any, actions: Any) -> tuple[Any, Any]:
        latents = np.empty((HORIZON, len(actions), 24))
        latent = np.repeat(start[None], len(actions), axis=0)
        for step in range(HORIZON):
            joined = np.concatenate([latent, actions[:, step]], axis=1)
            latent = np.tanh(np.tanh(joined @ self.inner) @ self.outer)
            latents[step] = latent
        return latents, (latents @ self.reward).sum(axis=0)


class PlanCache:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.plans: OrderedDict[tuple[int, ...], tuple[Any, Any]] = OrderedDict()
        self.hits = 0

    def find(self, key: tuple[int, ...]) -> Any:
        plan = self.plans.get(key)
        if plan is not None:
            self.plans.move_to_end(key)
            self.hits += 1
        return plan

    def store(self, key: tuple[int, ...], plan: tuple[Any, Any]) -> None:
        self.plans[key] = plan
        if len(self.plans) >= self.limit:
            for _ in range(self.limit // 2):
                self.plans.popitem(last=False)


class Planner:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.model, self.cache = LatentModel(self.rng), PlanCache(LIMIT)

    def plan(self, state: Any) -> Any:
        key = tuple(np.round(state * 4).astype(int).tolist())
        if (known := self.cache.find(key)) is not None:
            return known[0]
        actions = self.rng.normal(0, 1, (CANDIDATES, HORIZON, 2))
        latents, returns = self.model.imagine(state, actions)
        best = int(returns.argmax())
        self.cache.store(key, (actions[best].copy(), latents[:, :8].copy()))
        return actions[best]

    def drive(self, steps: int) -> float:
        state, total = self.rng.normal(0, 1, 24), 0.0
        for _ in range(steps):
            action = self.plan(state)[0]
            state = 0.9 * state + 0.3 * self.rng.normal(0, 1, 24)
            state[:2] += 0.1 * action
            total += float(state @ self.model.reward)
        return total


def calibrate(planner: Planner) -> None:
    for actions, latents in list(planner.cache.plans.values())[-60:]:
        planner.model.reward -= 1e-5 * latents.mean(axis=(0, 1)) * np.abs(actions).mean()


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    planner = Planner(seed=23)
    for generation in range(34):
        with phase(generation, "drive"):
            for _ in range(3):
                planner.drive(60)
        with phase(generation, "calibrate"):
            calibrate(planner)


if __name__ == "__main__":
    run()
