"""A tf.function with a fixed signature, tf.data and a training step: all graphs are made at first.

expected:
  leak: no
"""

from typing import Any

import numpy as np
import tensorflow as tf

W = tf.Variable(tf.random.normal((32, 4)))


SIGNATURE = [tf.TensorSpec([], tf.float32), tf.TensorSpec([None, 32])]


@tf.function(input_signature=SIGNATURE)  # type: ignore[untyped-decorator]
def update(rate: Any, batch: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((batch @ W) ** 2)
    W.assign_sub(rate * tape.gradient(loss, W))
    return loss


def train(data: Any, generation: Any) -> Any:
    return [float(update(0.1 / (1 + generation), batch)) for batch in data]


def run() -> None:
    rows = np.random.default_rng(1).standard_normal((4_000, 32)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(rows).shuffle(1_000).batch(50)
    for generation in range(24):
        train(data, generation)


if __name__ == "__main__":
    run()
