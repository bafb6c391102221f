"""A new policy every generation goes into one tf.function as an argument: a graph for each.

expected:
  leak: yes
  culprit: tf.function
  path: leaky_object_arguments.py:act
  cause: graph-retention
"""

from typing import Any

import numpy as np
import tensorflow as tf


class Policy:
    """Weights of one individual."""

    def __init__(self, rng: Any) -> None:
        self.first = tf.Variable(rng.standard_normal((32, 128)).astype(np.float32))
        self.second = tf.Variable(rng.standard_normal((128, 4)).astype(np.float32))


@tf.function  # type: ignore[untyped-decorator]
def act(policy: Any, observation: Any) -> Any:
    return tf.tanh(tf.tanh(observation @ policy.first) @ policy.second)


def evaluate(policy: Any) -> Any:
    observation = tf.ones((1, 32))
    return [float(act(policy, observation)[0, 0]) for _ in range(200)]


def run() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        population = [Policy(rng) for _ in range(6)]
        for policy in population:
            evaluate(policy)


if __name__ == "__main__":
    run()
