"""A fast path of `Store.add` for stores with one observation field: the same with fewer calls.

Values were checked already. Everything unusual takes the normal path.
"""

from typing import Any

import numpy as np

from ramledger.replay.storage.backing import Array
from ramledger.replay.storage.latest_frames import LatestFrames
from ramledger.replay.storage.memory_compare import address_of
from ramledger.replay.storage.memory_copy import copy_into
from ramledger.replay.storage.store import CONTINUES, Store
from ramledger.replay.storage.stream_rows import Stream

_CONTINUES = np.array(CONTINUES, np.uint8)  # converted once


def add(
    store: Store, env: int, obs: Array, action: Array, reward: Any, following: Array, flags: int
) -> int:
    """Store one transition; returns where."""
    stream = store.streams[env]
    head, tail = stream.head, stream.tail
    if head >= stream.quick_end or store.guard is not None:
        return _add_slowly(store, env, obs, action, reward, following, flags)
    if tail is None:
        if stream.latest != obs.tobytes():
            return _add_slowly(store, env, obs, action, reward, following, flags)
        store.quick_rows[head] = following
        stream.latest = following.tobytes()
    else:
        try:
            history = tail.push(obs, following)
        except ValueError:  # not contiguous
            history = -1
        if history < 0:
            return _add_slowly(store, env, obs, action, reward, following, flags)
        store.quick_rows[head] = following[-1]
        store.history[head] = history  # type: ignore[index]
    added, slots = stream.added, store.slots
    stream.head = head + 1
    stream.added = added + 1
    if added - stream.oldest >= slots:
        stream.oldest = added + 1 - slots
        if stream.oldest >= stream.next_release:
            store.arena.release(stream)
    index = (added % slots) * store.n_envs + env
    store.starts[index] = head - 1
    store.flags[index] = flags | CONTINUES
    store.actions[index] = action
    store.rewards[index] = reward
    if flags:
        stream.is_open, stream.quick_end = False, 0
    return index


def _add_slowly(
    store: Store, env: int, obs: Array, action: Array, reward: Any, following: Array, flags: int
) -> int:
    """The normal path; from then on `add` knows the latest observation."""
    index = store.add(env, (obs,), (following,), (action, reward), flags)
    stream = store.streams[env]
    if stream.is_open:
        if store.history is None:
            stream.latest = following.tobytes()
        else:
            if stream.tail is None:
                stream.tail = LatestFrames(store.quick_rows, store.stack)
            stream.tail.fill(following, int(store.history[stream.head - 1]))
        stream.quick_end = min(stream.end, stream.next_cross + 1)
    return index


def extend(
    store: Store, env: int, obs: Array, action: Array, reward: Array, following: Array, flags: Array
) -> None:
    """Store consecutive transitions."""
    stream, count = store.streams[env], len(flags)
    slot, n_envs = stream.added % store.slots, store.n_envs
    ends = flags.nonzero()[0]
    if (
        not count
        or (len(ends) and (len(ends) > 1 or ends[0] != count - 1))
        or slot + count > store.slots
        or not _is_shifted(obs, following)
        or not _has_room(store, stream, count)
    ):
        store.extend(env, (obs,), (following,), (action, reward), flags)
        return
    rows, head = store.quick_rows, stream.head
    continues = stream.is_open and rows[head - 1].tobytes() == obs[0].tobytes()
    if not continues:
        rows[head] = obs[0]
        head += 1
    copy_into(rows[head : head + count], following)
    stream.head = head + count
    store.close_run(stream, head - 1, count)
    stream.added += count
    stream.is_open, stream.quick_end = not len(ends), 0
    place = slice(slot * n_envs + env, (slot + count) * n_envs, n_envs)
    store.starts[place] = np.arange(head - 1, head - 1 + count, dtype=np.int32)
    np.bitwise_or(flags, _CONTINUES, store.flags[place])
    if not continues:
        store.flags[place.start] ^= CONTINUES
    copy_into(store.actions[place], action)
    store.rewards[place] = reward


def _is_shifted(obs: Array, following: Array) -> bool:
    """Whether both are the same memory, one row apart: proof that each row follows the other."""
    step = obs.strides[0]
    return following.strides == obs.strides and address_of(following) - address_of(obs) == step


def _has_room(store: Store, stream: Stream, count: int) -> bool:
    """Whether rows for so many transitions follow the head, or can be made to."""
    if store.guard is not None or store.loader is not None:
        return False
    store.make_way(stream, count)
    needed, arena = stream.head + count + 1, store.arena
    while needed > stream.end:
        if not arena.has_neighbor(stream):
            return False
        arena.extend(stream)
    return True
