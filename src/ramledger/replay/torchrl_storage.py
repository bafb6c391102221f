"""`LedgerStorage`: a storage for TorchRL's replay buffers that keeps each observation once.

For data as TorchRL's collectors give it: what is also under "next" is an observation.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torchrl.data.replay_buffers.storages import Storage

from ramledger.errors import CheckpointError, ConfigError
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.checkpoints.saving import Saved
from ramledger.replay.schema import Field, Schema

ENDS = ("terminated", "truncated", "done")
Key = tuple[str, ...]


def as_it_is(batch: Any) -> Any:
    """The `collate_fn` for this storage, whose batches are whole."""
    return batch


class LedgerStorage(Storage):  # type: ignore[misc]
    """`TensorDictReplayBuffer(storage=LedgerStorage(10**6), collate_fn=as_it_is)`.

    Filled in order, as the default writer does.
    `dumps` saves what is new and `loads` verifies it, as `ReplayBuffer.save` and `load` do.
    """

    def __init__(self, max_size: int) -> None:
        super().__init__(max_size)
        self.core: ReplayBuffer | None = None
        self._shapes: dict[Key, tuple[int, ...]] = {}

    # ---- writing -------------------------------------------------------------------------------

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Add transitions; the places have to be the next ones."""
        if isinstance(cursor, slice):
            cursor = range(*cursor.indices(self.max_size))
        places = np.atleast_1d(np.asarray(cursor, np.int64))
        leaves = _leaves(data if data.batch_dims else data.unsqueeze(0))
        core = self._core_for(leaves)
        wanted = (core.total_added + np.arange(len(places))) % self.max_size
        if not np.array_equal(places, wanted):
            raise ConfigError(
                "transitions must be stored in order, but these places are not the next ones",
                hint="use the default writer, RoundRobinWriter",
            )
        for key, shape in self._shapes.items():
            if key not in leaves or leaves[key].shape[1:] != shape:
                raise ConfigError(
                    f"the data has no {'/'.join(key)} of shape {shape}",
                    hint="give all data the same keys and shapes",
                )
        names = core.schema.rows
        here, there = ({n: leaves[(*up, n)] for n in names} for up in ((), ("next",)))
        ends = {n: leaves[("next", n)].reshape(-1) for n in ENDS if ("next", n) in leaves}
        terminated = ends.get("terminated", ends.get("done"))
        truncated = ends.get("truncated")
        extra = {name: leaves[key] for key, name in _extra_names(leaves).items()}
        core.extend(
            here, leaves[("action",)], leaves[("next", "reward")], there, terminated, truncated,
            **extra,
        )  # fmt: skip
        if set_cursor:
            self._set_last_cursor(cursor)
        self._bump_mutation_revision()

    def _core_for(self, leaves: Mapping[Key, Any]) -> ReplayBuffer:
        if self.core is None:
            self._shapes = {key: array.shape[1:] for key, array in leaves.items()}
            self.core = ReplayBuffer(_schema_of(leaves), self.max_size)
        elif not self._shapes:  # loaded, and not added to since
            self._shapes = {key: array.shape[1:] for key, array in leaves.items()}
            if _schema_of(leaves) != self.core.schema:
                raise ConfigError("the data does not match the schema of the loaded checkpoint")
        return self.core

    # ---- reading -------------------------------------------------------------------------------

    def get(self, index: Any) -> Any:
        """Transitions by place, as new tensors."""
        if self.core is None:
            raise ConfigError("the storage is empty", hint="add transitions first")
        if isinstance(index, tuple) and len(index) == 1:
            index = index[0]
        if isinstance(index, slice):
            index = range(*index.indices(len(self)))
        places = np.asarray(index, np.int64)
        batch = self.core.get(places.reshape(-1)).torch()
        ends = {"terminated": batch.terminated[:, None], "truncated": batch.truncated[:, None]}
        ends["done"] = ends["terminated"] | ends["truncated"]
        found = TensorDict(
            {
                **batch.obs,
                "action": batch.action,
                "next": {**batch.next_obs, "reward": batch.reward, **ends},
            },
            batch_size=[places.size],
        )
        for key, name in self._extra.items():
            found[key] = batch.extra[name]
        return found[0] if places.ndim == 0 else found

    @property
    def _extra(self) -> dict[Key, str]:
        names = self.core.schema.extra if self.core is not None else {}
        return {tuple(name.removeprefix("at_").split("__")): name for name in names}

    def __len__(self) -> int:
        return len(self.core) if self.core is not None else 0

    def contains(self, item: Any) -> Any:
        """Whether places hold something."""
        places = torch.as_tensor(item)
        return (places >= 0) & (places < len(self))

    def _empty(self) -> None:
        self.core, self._shapes = None, {}

    # ---- checkpoints ---------------------------------------------------------------------------

    def dumps(self, path: str | os.PathLike[str]) -> Saved:
        """Save what is new to a folder."""
        if self.core is None:
            raise CheckpointError("the storage is empty: nothing to save")
        return self.core.save(path)

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Take over what was saved."""
        core = ReplayBuffer.load(path)
        if core.capacity != self.max_size:
            raise CheckpointError(
                f"the checkpoint is for {core.capacity} transitions, this storage for "
                f"{self.max_size}",
                hint=f"create LedgerStorage({core.capacity})",
            )
        self.core, self._shapes = core, {}
        self._bump_mutation_revision()

    def state_dict(self) -> dict[str, Any]:
        """Refused: it would be a copy of everything."""
        raise CheckpointError("transitions are not part of a state_dict", hint="use dumps(folder)")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        raise CheckpointError("transitions are not part of a state_dict", hint="use loads(folder)")


def _leaves(data: Any) -> dict[Key, Any]:
    """Arrays by key, without a copy where tensors are on the CPU."""
    pairs = data.items(include_nested=True, leaves_only=True)
    keyed = ((key if isinstance(key, tuple) else (key,), value) for key, value in pairs)
    return {key: value.detach().cpu().numpy() for key, value in keyed}


def _is_observation(key: Key, leaves: Mapping[Key, Any]) -> bool:
    return len(key) == 1 and key[0] not in ENDS and ("next", *key) in leaves


def _extra_names(leaves: Mapping[Key, Any]) -> dict[Key, str]:
    """Names of further fields: not observation, action, reward or end flags."""
    known = {("action",), ("next", "reward"), *((end,) for end in ENDS)}
    known |= {("next", end) for end in ENDS}
    for key in leaves:
        if _is_observation(key, leaves):
            known |= {key, ("next", *key)}
    return {key: "at_" + "__".join(key) for key in leaves if key not in known}


def _schema_of(leaves: Mapping[Key, Any]) -> Schema:
    for key in (("action",), ("next", "reward")):
        if key not in leaves:
            raise ConfigError(
                f"the data has no {'/'.join(key)}",
                hint="give it as collectors do: observation, action, next/observation, next/reward",
            )

    def field(key: Key) -> Field:
        return Field(leaves[key].shape[1:], leaves[key].dtype.name)

    return Schema(
        {key[0]: field(key) for key in leaves if _is_observation(key, leaves)},
        action=field(("action",)),
        reward=field(("next", "reward")),
        extra={name: field(key) for key, name in _extra_names(leaves).items()},
    )
