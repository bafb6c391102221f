"""One Keras model acts and learns, generation after generation: fit's graphs are made at first.

expected:
  leak: no
"""

from typing import Any

import keras
import numpy as np


def build() -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((16,)), layers.Dense(128, "relu"), layers.Dense(128, "relu"), layers.Dense(2)]
    )
    model.compile("adam", "mse")
    return model


def collect(model: Any, rng: Any) -> Any:
    seen = []
    for _ in range(40):
        state = rng.standard_normal((1, 16)).astype(np.float32)
        seen.append((state[0], model(state, training=False).numpy()[0]))
    return seen


def learn(model: Any, seen: Any) -> None:
    states = np.stack([state for state, _ in seen])
    targets = np.stack([values for _, values in seen]) * 0.9
    model.fit(states, targets, epochs=2, verbose=0)


def run() -> None:
    rng = np.random.default_rng(1)
    model = build()
    for _ in range(24):
        learn(model, collect(model, rng))


if __name__ == "__main__":
    run()
