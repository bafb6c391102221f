"""Keras with memory in its logs: a small network, an epoch a generation, the verdict at the end.

python examples/keras_memory.py        (needs: pip install 'ramledger[keras]' tensorflow-cpu)
"""

import keras
import numpy as np

from ramledger.integrations.keras import MemoryCallback


def main() -> None:
    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((64,)), layers.Dense(256, activation="relu"), layers.Dense(4)]
    )
    model.compile("adam", "mse")
    x = np.random.default_rng(1).standard_normal((5_000, 64)).astype(np.float32)
    history = model.fit(
        x, x[:, :4], epochs=20, verbose=0, callbacks=[MemoryCallback(every_seconds=1.0)]
    ).history
    for name in ("rss", "networks", "optimizer", "tensorflow", "unexplained"):
        print(f"{name:12} {history[f'memory/{name}'][-1]:8.1f} MiB")


if __name__ == "__main__":
    main()
