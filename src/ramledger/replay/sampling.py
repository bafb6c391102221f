"""Draws transitions and gathers their data: batches, n-step returns, sequences."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ramledger.errors import ConfigError
from ramledger.replay.batch import Batch, Sequences
from ramledger.replay.storage.backing import Array
from ramledger.replay.storage.columns import Pair, Picks
from ramledger.replay.storage.store import CONTINUES, TERMINATED, TRUNCATED, Store

Scaled = Callable[[Array], Array]  # rewards as a wrapper of the environment scales them

_ENDS = TERMINATED | TRUNCATED
# converted once
_TERMINATED, _TRUNCATED = np.array(TERMINATED, np.uint8), np.array(TRUNCATED, np.uint8)


def check_count(count: int, size: int) -> None:
    """Require a positive sample size and a buffer that is not empty."""
    if count < 1:
        raise ConfigError(f"sample size must be at least 1, got {count}")
    if size < 1:
        raise ConfigError("cannot sample from an empty buffer", hint="add transitions first")


def uniform(store: Store, rng: np.random.Generator, count: int) -> Array:
    """Places of transitions drawn with replacement, all equally likely."""
    slots, n_envs = store.slots, store.n_envs
    if n_envs == 1 and ((size := store.size) == slots or not store.streams[0].oldest):
        return rng.integers(0, size, count)
    oldest, sizes = store.valid()
    if min(sizes) == slots or (not any(oldest) and min(sizes) == max(sizes)):
        # wherever the ring begins, these are all places in use
        return rng.integers(0, sizes[0] * n_envs, count)
    return place(store, rng.integers(0, sum(sizes), count))


def place(store: Store, rank: Array) -> Array:
    """Places of transitions counted environment by environment, oldest first."""
    oldest, sizes = store.valid()
    ends = np.cumsum(sizes)
    env = np.searchsorted(ends, rank, side="right")
    since_oldest = rank - (ends - sizes)[env]
    return (np.asarray(oldest)[env] + since_oldest) % store.slots * store.n_envs + env


def ordered(store: Store) -> Array:
    """All places, environment by environment, oldest first."""
    return place(store, np.arange(store.size))


def gather(
    store: Store, index: Array, n_step: int, gamma: float, out: Batch | None,
    scaled: Scaled | None = None,
) -> Batch:  # fmt: skip
    """The transitions at `index`; with n steps, each to where the n-th one ends."""
    if n_step > 1:
        return _gather_steps(store, index, n_step, gamma, scaled)
    if out is not None and len(out) != len(index):
        out = None
    flags = store.flags.take(index)
    obs, following = _observations(store, store.picks(index, flags), out)
    arrays = [
        array.take(index, 0, _reused(out, name), "clip") for name, array in store.steps.items()
    ]
    rewards = arrays[1] if scaled is None else scaled(arrays[1])
    batch = Batch(obs, arrays[0], rewards, following, *_ends(flags), index)
    if len(arrays) > 2:
        batch.extra = dict(zip(list(store.steps)[2:], arrays[2:], strict=True))
    return batch


def _ends(flags: Array) -> Pair:
    """Whether each was terminated, and whether truncated."""
    return (flags & _TERMINATED).view(bool), ((flags & _TRUNCATED) >> _TERMINATED).view(bool)


def _reused(out: Batch | None, name: str) -> Any:
    if out is None:
        return None
    return out.extra[name] if name in out.extra else getattr(out, name)


def _observations(store: Store, picks: Picks, out: Batch | None) -> tuple[Any, Any]:
    columns = store.columns
    if not store.schema.is_dict:
        pair: Pair | None = (out.obs, out.next_obs) if out is not None else None  # type: ignore[assignment]
        return columns[0].gather(picks, pair)
    here: dict[str, Array] = {}
    there: dict[str, Array] = {}
    for column in columns:
        pair = None
        if out is not None and isinstance(out.obs, dict) and isinstance(out.next_obs, dict):
            pair = (out.obs[column.name], out.next_obs[column.name])
        here[column.name], there[column.name] = column.gather(picks, pair)
    return here, there


def following_places(store: Store, index: Array, length: int) -> tuple[Array, Array]:
    """Places of `length` consecutive transitions from each on, and which belong to its episode.

    A stretch ends with its episode, before a step that does not continue the one before it, and
    at the newest transition.
    """
    env, slot = index % store.n_envs, index // store.n_envs
    added = np.asarray([stream.added for stream in store.streams])
    # steps until the newest transition of the stream
    left = (added[env] - 1 - slot) % store.slots
    steps = np.arange(length)
    places = (slot[:, None] + steps) % store.slots * store.n_envs + env[:, None]
    flags = store.flags[places]
    is_stored = steps <= left[:, None]
    goes_on = np.ones(places.shape, bool)
    goes_on[:, 1:] = (flags[:, 1:] & CONTINUES != 0) & (flags[:, :-1] & _ENDS == 0)
    mask = np.logical_and.accumulate(goes_on & is_stored, axis=1)
    return np.where(mask, places, index[:, None]), mask


def _gather_steps(
    store: Store, index: Array, n_step: int, gamma: float, scaled: Scaled | None
) -> Batch:
    places, mask = following_places(store, index, n_step)
    length = mask.sum(axis=1)
    last = places[np.arange(len(index)), length - 1]
    flags = store.flags.take(last)
    obs, following = _observations(store, store.picks(index, flags, last), None)
    rewards = store.steps["reward"][places]
    if scaled is not None:
        rewards = scaled(rewards)
    kind = rewards.dtype if rewards.dtype.kind == "f" else np.dtype(np.float32)
    # discounts have the reward's precision, as in stable-baselines3
    weights = gamma ** np.arange(n_step, dtype=kind) * mask
    total = (rewards * weights.reshape(*mask.shape, *(1,) * (rewards.ndim - 2))).sum(axis=1)
    batch = Batch(
        obs, store.steps["action"].take(index, 0), total.astype(kind), following,
        *_ends(flags), index,
        discount=gamma ** length.astype(np.float32),
    )  # fmt: skip
    batch.extra = {name: store.steps[name].take(index, 0) for name in list(store.steps)[2:]}
    return batch


def gather_sequences(store: Store, index: Array, length: int) -> Sequences:
    """`length` consecutive steps from each place on, as [batch, time, …]."""
    if length < 1:
        raise ConfigError(f"sequence length must be at least 1, got {length}")
    places, mask = following_places(store, index, length)
    flat = places.reshape(-1)
    batch = gather(store, flat, 1, 1.0, None)

    def shaped(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: shaped(array) for name, array in value.items()}
        return value.reshape(*places.shape, *value.shape[1:])

    return Sequences(
        shaped(batch.obs), shaped(batch.action), shaped(batch.reward), shaped(batch.next_obs),
        shaped(batch.terminated), shaped(batch.truncated), mask, places,
        {name: shaped(array) for name, array in batch.extra.items()},
    )  # fmt: skip
