"""The learner publishes each policy under a new version, and the server process keeps them all."""

from contextlib import nullcontext
from multiprocessing import Manager, get_context
from typing import Any

import numpy as np

INPUTS, HIDDEN, OUTPUTS = 600, 1800, 120
HELD: dict[str, Any] = {}


def fresh_policy(rng: Any) -> dict[str, Any]:
    return {
        "inner": rng.normal(0, 0.05, (INPUTS, HIDDEN)),
        "outer": rng.normal(0, 0.05, (HIDDEN, OUTPUTS)),
    }


def act(policy: dict[str, Any], states: Any) -> Any:
    return np.tanh(np.tanh(states @ policy["inner"]) @ policy["outer"])


def latest(store: Any) -> dict[str, Any]:
    name = f"policy-{store['latest']}"
    if name not in HELD:
        HELD.clear()
        HELD[name] = store[name]
    return HELD[name]


def episode(store: Any, seed: int, steps: int) -> tuple[Any, float]:
    rng, policy = np.random.default_rng(seed), latest(store)
    states, total = rng.normal(0, 1, (16, INPUTS)), 0.0
    for _ in range(steps):
        actions = act(policy, states)
        states = 0.95 * states + np.pad(actions, ((0, 0), (0, INPUTS - OUTPUTS)))
        states += rng.normal(0, 0.1, states.shape)
        total -= float(np.square(states).mean())
    return states.astype(np.float32), total


class Learner:
    def __init__(self, store: Any) -> None:
        self.store = store
        self.rng = np.random.default_rng(20)
        self.policy = fresh_policy(self.rng)
        self.slope = np.zeros((INPUTS, HIDDEN))
        self.version = 0

    def publish(self) -> None:
        self.store[f"policy-{self.version}"] = self.policy
        self.store["latest"] = self.version
        self.version += 1

    def improve(self, batches: list[Any]) -> None:
        for states in batches:
            hidden = np.tanh(states @ self.policy["inner"])
            error = np.tanh(hidden @ self.policy["outer"]) + states[:, :OUTPUTS]
            self.policy["outer"] -= 1e-4 * hidden.T @ error
            np.matmul(states.T, 1e-5 * error @ self.policy["outer"].T, out=self.slope)
            self.policy["inner"] -= self.slope


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    with Manager() as manager, get_context("fork").Pool(2) as pool:
        store = manager.dict()
        learner = Learner(store)
        for generation in range(24):
            with phase(generation, "publish"):
                learner.publish()
            with phase(generation, "rollout"):
                seeds = range(4 * generation, 4 * generation + 4)
                results = pool.starmap(episode, [(store, seed, 25) for seed in seeds])
            with phase(generation, "improve"):
                learner.improve([states for states, _ in results])


if __name__ == "__main__":
    run()
