"""Every batch of observations is appended to a list as an eager tensor.

expected:
  leak: yes
  culprit: EagerTensor
  path: leaky_tensor_log.py:SEEN
  cause: unbounded-container
"""

from typing import Any

import tensorflow as tf

SEEN: list[Any] = []


def collect() -> None:
    for _ in range(8):
        batch = tf.random.normal((256, 128))
        SEEN.append(batch)
        for _ in range(20):
            batch = tf.tanh(batch @ tf.ones((128, 128)) / 128)


def run() -> None:
    for _ in range(24):
        collect()


if __name__ == "__main__":
    run()
