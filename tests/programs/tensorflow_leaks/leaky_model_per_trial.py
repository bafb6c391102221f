"""A search builds and trains a new Keras model in every trial, and drops it: its graphs stay.

expected:
  leak: yes
  culprit: keras model
  path: leaky_model_per_trial.py:trial
  cause: graph-retention
"""

from typing import Any

import keras
import numpy as np

X = np.random.default_rng(1).standard_normal((64, 8)).astype(np.float32)
Y = X[:, :2]


def trial(number: Any) -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((8,)), layers.Dense(16 + number, "relu"), layers.Dense(2)]
    )
    model.compile("adam", "mse")
    return model.fit(X, Y, verbose=0).history["loss"][-1]


def run() -> None:
    scores = []
    for number in range(14):
        scores.append(trial(number))


if __name__ == "__main__":
    run()
