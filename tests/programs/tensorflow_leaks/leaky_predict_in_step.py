"""The environment asks a Keras model for the next state in every step, by model.predict.

Each call builds a data pipeline and its graphs, in reference cycles. The collector is off, as in
NVlabs/GR00T-WholeBodyControl#220, so they stay; the symptom is that of
DLR-RM/stable-baselines3#1699.

expected:
  leak: yes
  culprit: keras model.predict
  path: leaky_predict_in_step.py:WorldEnv.step
  cause: graph-retention
"""

import gc
from typing import Any

import gymnasium
import keras
import numpy as np


class WorldEnv(gymnasium.Env[Any, Any]):
    """The dynamics are a network."""

    observation_space = gymnasium.spaces.Box(-1, 1, (8,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(8, "tanh")])
        self.state = np.zeros(8, np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = np.ones(8, np.float32)
        return self.state, {}

    def step(self, action: Any) -> Any:
        self.state = self.model.predict(self.state[None], verbose=0)[0]
        return self.state, float(action), False, False, {}


def collect(env: Any) -> None:
    env.reset(seed=1)
    for step in range(12):
        env.step(step % 2)


def run() -> None:
    gc.disable()
    env = WorldEnv()
    for _ in range(20):
        collect(env)


if __name__ == "__main__":
    run()
