"""Priorities: a sum tree over transitions, updated and sampled in batches."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ramledger.errors import ConfigError
from ramledger.replay.storage.backing import Array, Backing, Memory

TREE_NAME = "sum-tree"  # no field can be called that


@dataclass(frozen=True, slots=True)
class Prioritized:
    """Proportional prioritization (Schaul et al. 2016): p = (|priority| + epsilon) ** alpha."""

    alpha: float = 0.6
    beta: float = 0.4
    epsilon: float = 1e-6


class SumTree:
    """Node i is the sum of nodes 2i and 2i + 1; leaves are places. Evicted places weigh nothing."""

    BYTES_A_LEAF = 16

    def __init__(self, places: int, settings: Prioritized, backing: Backing | None = None) -> None:
        self.settings = settings
        self.places = places
        self.first_leaf = 1 << max(0, (places - 1).bit_length())
        # node 0 is not a sum: it holds the raw priority of new transitions
        self.nodes = (backing or Memory()).allocate(TREE_NAME, (2 * self.first_leaf,), "float64")
        if not self.nodes[0]:
            self.nodes[0] = 1.0

    @property
    def largest(self) -> float:
        """The largest raw priority so far: new transitions get it, so that each is seen soon."""
        return float(self.nodes[0])

    @largest.setter
    def largest(self, value: float) -> None:
        self.nodes[0] = value

    @property
    def leaves(self) -> Array:
        return self.nodes[self.first_leaf : self.first_leaf + self.places]

    def set_new(self, store: Any, index: int) -> None:
        """Give a new transition the largest priority so far."""
        self._forget(store)
        self._set(np.array([index]), np.array([self.largest**self.settings.alpha]))

    def set_new_steps(self, store: Any, count: int, env: int | None = None) -> None:
        """The same for the latest `count` steps of one environment, or of every one."""
        self._forget(store)
        for number in range(store.n_envs) if env is None else (env,):
            stream = store.streams[number]
            # of many, the first may have made room for the last already
            first = max(stream.added - count, stream.oldest)
            slots = np.arange(first, stream.added) % store.slots
            index = slots * store.n_envs + number
            self._set(index, np.full(len(index), self.largest**self.settings.alpha))

    def _forget(self, store: Any) -> None:
        """Places that hold nothing any more are never drawn."""
        for number, begin, end in store.arena.forgotten:
            index = np.arange(begin, end) % store.slots * store.n_envs + number
            self._set(index, np.zeros(len(index)))
        store.arena.forgotten.clear()

    def update(self, store: Any, index: Array, priority: Array) -> None:
        """Set priorities, each a finite number; those of transitions that are gone are ignored."""
        if index.shape != priority.shape or index.ndim != 1:
            raise ConfigError(
                f"got priorities of shape {priority.shape} for indices of shape {index.shape}",
                hint="give one priority for each index of the batch",
            )
        if len(index) and (index.min() < 0 or index.max() >= self.places):
            raise ConfigError("an index is outside the buffer", hint="use Batch.index")
        if not np.isfinite(priority).all():
            raise ConfigError("a priority is not finite", hint="check the loss for NaN")
        raw = np.abs(priority) + self.settings.epsilon
        if store.size < self.places:
            is_stored = store.is_stored(index)
            index, raw = index[is_stored], raw[is_stored]
        if len(raw):
            self.largest = max(self.largest, float(raw.max()))
        self._set(index, raw**self.settings.alpha)

    def _set(self, index: Array, value: Array) -> None:
        node = index + self.first_leaf
        self.nodes[node] = value
        # each sum is computed from both children, so errors do not accumulate
        node = np.unique(node >> 1)
        while len(node) and node[-1]:
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1]
            node = np.unique(node >> 1)
            node = node[node > 0]

    def rebuild(self) -> None:
        """Every sum from the leaves."""
        level = self.first_leaf
        while level > 1:
            children = self.nodes[level : 2 * level]
            self.nodes[level // 2 : level] = children[0::2] + children[1::2]
            level //= 2

    def sample(self, rng: np.random.Generator, count: int, size: int) -> tuple[Array, Array]:
        """Places drawn by priority, one in each of `count` equal parts, and their weights."""
        total = self.nodes[1]
        mass = (np.arange(count) + rng.random(count)) * (total / count)
        node = np.ones(count, np.int64)
        while node[0] < self.first_leaf:
            node *= 2
            left = self.nodes[node]
            goes_right = (mass >= left) & (self.nodes[node + 1] > 0)
            mass = np.where(goes_right, mass - left, mass)
            node += goes_right
        probability = self.nodes[node] / total
        weight = (size * probability) ** -self.settings.beta
        return node - self.first_leaf, (weight / weight.max()).astype(np.float32)
