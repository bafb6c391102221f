"""Builds one kind of large Python heap and holds it. Arguments: the kind, and its scale."""

import gc
import itertools
import sys
from typing import Any

import numpy as np
from holding import hold


class Transition:
    """An object with an array, a list and a dictionary, as trainings make them by the thousand."""

    def __init__(self, step: int) -> None:
        self.values = np.zeros(4)
        self.path = [step]
        self.info = {"step": step, "lives": [1, 2]}


def lists(scale: float) -> Any:
    return [[] for _ in range(int(1_000_000 * scale))]


def instances(scale: float) -> Any:
    return [Transition(i) for i in range(int(200_000 * scale))]


def tuples(scale: float) -> Any:
    return [(np.zeros(4), {"x": i}, [i]) for i in range(int(333_000 * scale))]


def transitions(scale: float) -> Any:
    """Each observation belongs to two of them."""
    frames = [np.ones(4) for _ in range(int(250_000 * scale) + 1)]
    pairs = itertools.pairwise(frames)
    return [{"obs": now, "next_obs": after, "path": [i]} for i, (now, after) in enumerate(pairs)]


def nested(scale: float) -> Any:
    return {i: {j: [j, (j, i)] for j in range(400)} for i in range(int(1_000 * scale))}


def torch(scale: float) -> Any:
    """A process that has imported torch and made its first optimizer."""
    import torch as package

    package.set_num_threads(1)
    return package.optim.Adam([package.nn.Parameter(package.zeros(1))])


def main() -> None:
    kind, scale = sys.argv[1], float(sys.argv[2])
    made = globals()[kind](scale)
    gc.collect()
    hold({"tracked": len(gc.get_objects())}, roots={"made": made})


main()
