"""After the exploration all transitions are joined to one array, which only ever gets longer."""

from contextlib import nullcontext
from typing import Any

import numpy as np

ARMS, STATE, ACTION, EXPLORATION = 64, 18, 6, 8


class Plant:
    """Joints of many arms, moved by torques."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng
        self.coupling = np.linalg.qr(rng.normal(size=(STATE, STATE)))[0] * 0.98
        self.drive = rng.normal(0, 0.2, (ACTION, STATE))
        self.states = rng.normal(size=(ARMS, STATE))

    def step(self, actions: Any) -> Any:
        noise = self.rng.normal(0, 0.01, self.states.shape)
        self.states = np.tanh(self.states @ self.coupling + actions @ self.drive) + noise
        return self.states


class Dynamics:
    """Random features and ridge regression."""

    def __init__(self, rng: Any, features: int = 256) -> None:
        self.lift = rng.normal(0, 0.5, (STATE + ACTION, features))
        self.readout = np.zeros((features, STATE))

    def predict(self, states: Any, actions: Any) -> Any:
        return np.tanh(np.hstack([states, actions]) @ self.lift) @ self.readout

    def fit(self, rows: Any) -> None:
        lifted = np.tanh(rows[:, : STATE + ACTION] @ self.lift)
        gram = lifted.T @ lifted + np.eye(lifted.shape[1])
        self.readout = np.linalg.solve(gram, lifted.T @ rows[:, STATE + ACTION :])


class Agent:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.plant, self.dynamics = Plant(self.rng), Dynamics(self.rng)
        self.table = np.empty((0, 2 * STATE + ACTION))
        self.fresh = self.table

    def plan(self, states: Any, candidates: int = 20) -> Any:
        actions = self.rng.normal(0, 1, (candidates, len(states), ACTION))
        costs = [np.square(self.dynamics.predict(states, row)).sum(axis=1) for row in actions]
        return actions[np.argmin(costs, axis=0), np.arange(len(states))]

    def remember(self, rows: Any) -> None:
        self.table = np.concatenate([self.table, rows])

    def interact(self, steps: int, explore: bool) -> None:
        rows = []
        for step in range(steps):
            states = self.plant.states
            if explore or step % 2:
                actions = self.rng.normal(0, 1, (ARMS, ACTION))
            else:
                actions = self.plan(states)
            rows.append(np.hstack([states, actions, self.plant.step(actions)]))
        self.fresh = np.concatenate(rows)
        if not explore:
            self.remember(self.fresh)

    def learn(self) -> None:
        source = self.table if len(self.table) else self.fresh
        self.dynamics.fit(source[self.rng.integers(0, len(source), 16000)])


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    agent = Agent(seed=5)
    for generation in range(32):
        with phase(generation, "interact"):
            agent.interact(290, explore=generation < EXPLORATION)
        with phase(generation, "learn"):
            agent.learn()


if __name__ == "__main__":
    run()
