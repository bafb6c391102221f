"""Goals relabeled in hindsight (Andrychowicz et al. 2017): what was reached becomes the goal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ramledger.errors import ConfigError
from ramledger.replay.batch import Batch
from ramledger.replay.storage.backing import Array
from ramledger.replay.storage.store import CONTINUES, TERMINATED, TRUNCATED, Store

RewardOf = Callable[[Array, Array], Any]

_STRATEGIES = ("future", "final")


@dataclass(frozen=True, slots=True)
class Hindsight:
    """`reward(achieved, desired)` is that of the environment, for whole batches."""

    reward: RewardOf
    ratio: float = 0.8  # of the batch
    strategy: str = "future"  # a later step of the episode, or its last

    def relabel(self, store: Store, rng: np.random.Generator, batch: Batch) -> None:
        """Replace goal and reward of a part of the batch, in place."""
        goals = store.schema.goals
        if goals is None:
            raise ConfigError(
                "hindsight needs a schema with goals", hint="use Schema(..., goals=Goals())"
            )
        if self.strategy not in _STRATEGIES or not 0 <= self.ratio <= 1:
            raise ConfigError(
                "strategy must be 'future' or 'final' and ratio between 0 and 1, "
                f"got {self.strategy!r} and {self.ratio}",
            )
        if not isinstance(batch.obs, dict) or not isinstance(batch.next_obs, dict):
            raise ConfigError("goals need an observation with several fields")
        chosen = np.flatnonzero(rng.random(len(batch)) < self.ratio)
        if not len(chosen):
            return
        source = self._sources(store, rng, batch.index[chosen])
        rows = store.picks(source, store.flags.take(source)).following
        reached = store.rows[goals.achieved][rows]
        batch.obs[goals.desired][chosen] = reached
        batch.next_obs[goals.desired][chosen] = reached
        achieved = batch.next_obs[goals.achieved][chosen]
        batch.reward[chosen] = np.asarray(self.reward(achieved, reached)).astype(batch.reward.dtype)

    def _sources(self, store: Store, rng: np.random.Generator, index: Array) -> Array:
        """Steps whose achieved goal becomes the desired one: this one or later, same episode."""
        ends = np.array([episode_end(store, int(at)) for at in index])
        slot, env = index // store.n_envs, index % store.n_envs
        ahead = (ends - slot) % store.slots
        if self.strategy == "future":
            ahead = rng.integers(0, ahead + 1)
        places: Array = (slot + ahead) % store.slots * store.n_envs + env
        return places


def episode_end(store: Store, index: int) -> int:
    """The slot of the last stored step of the episode that holds the transition at `index`."""
    slots, n_envs = store.slots, store.n_envs
    slot, env = divmod(index, n_envs)
    newest = (store.streams[env].added - 1) % slots
    flags = store.flags
    while slot != newest and not flags[slot * n_envs + env] & (TERMINATED | TRUNCATED):
        following = (slot + 1) % slots
        if not flags[following * n_envs + env] & CONTINUES:
            break
        slot = following
    return slot
