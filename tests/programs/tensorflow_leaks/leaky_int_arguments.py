"""The number of the step goes into a tf.function as a Python int: every step is a new graph.

expected:
  leak: yes
  culprit: tf.function
  path: leaky_int_arguments.py:explore
  cause: graph-retention
"""

from typing import Any

import tensorflow as tf

NOISE = tf.random.Generator.from_seed(1)


@tf.function  # type: ignore[untyped-decorator]
def explore(step: Any, action: Any) -> Any:
    return action + tf.math.exp(-0.001 * step) * NOISE.normal([4])


def collect(first: Any) -> Any:
    action = tf.zeros(4)
    for step in range(first, first + 25):
        action = explore(step, action)
    return action


def run() -> None:
    for generation in range(24):
        collect(25 * generation)


if __name__ == "__main__":
    run()
