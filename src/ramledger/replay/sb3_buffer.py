"""`LedgerReplayBuffer`: a drop-in for stable-baselines3, as `replay_buffer_class=`.

Array and Dict observations, timeouts and n-step returns, each observation stored once. Batches are
bit-identical to those of stable-baselines3's own buffers for the same random numbers.
"""

import copy
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer, DictReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer as BaselinesReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from ramledger.errors import CheckpointError, ConfigError
from ramledger.replay import sb3_arrays
from ramledger.replay.batch import Batch
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.checkpoints.saving import Saved
from ramledger.replay.sampling import place
from ramledger.replay.schema import Field, Frames, ObservationField, Schema
from ramledger.replay.storage.backing import Array, Backing

_REFERENCED = "ramledger.replay.sb3_buffer/1"
_BASELINES = "stable_baselines3."
_THEIR_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class LedgerReplayBuffer(BaselinesReplayBuffer):
    """`replay_buffer_kwargs` beyond those of stable-baselines3:

    checkpoint    folder: `model.save_replay_buffer` then saves there, and its file only says where
    frame_stack   how many frames the first axis of an observation holds; an int, or one a key
    n_steps, gamma    n-step returns
    seed          a generator of its own, saved and restored, instead of numpy's global one
    compress      "lz4" or "zstd": rows that have filled a block are kept compressed
    """

    _kept_arrays: tuple[str, ...] = ()  # of a subclass, which are no transitions

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        checkpoint: str | None = None,
        frame_stack: int | Mapping[str, int] = 1,
        n_steps: int = 1,
        gamma: float = 0.99,
        seed: int | None = None,
        keep: int = 2,
        backing: Backing | None = None,
        compress: str = "",
    ) -> None:
        # not ReplayBuffer.__init__: that allocates everything twice
        BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        # this buffer always stores observations once, also with timeouts
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        self.checkpoint, self.keep = checkpoint, keep
        self.n_steps, self.gamma = n_steps, gamma
        self._seed, self._frame_stack = seed, frame_stack
        # by key for Dict observations
        self._shapes: Any = self.obs_shape
        schema = self._schema()
        core = ReplayBuffer(
            schema, self.buffer_size * n_envs, n_envs=n_envs, seed=seed, backing=backing,
            compress=compress,
        )  # fmt: skip
        self._adopt(core)

    def _adopt(self, core: ReplayBuffer) -> None:
        # the arrays come first, so that the ledger books them as replay/<field>
        for name, array in (*core.store.rows.items(), *core.store.steps.items()):
            setattr(self, f"{name}_rows" if name in core.store.rows else name, array)
        self.core = core
        self._is_dict = core.schema.is_dict

    def _schema(self) -> Schema:
        if isinstance(self.observation_space, spaces.Dict):
            observation: Any = {
                name: self._field(name, space, self._shapes[name])
                for name, space in self.observation_space.spaces.items()
            }
        else:
            observation = self._field("", self.observation_space, self.obs_shape)
        dtype: Any = self.action_space.dtype
        if hasattr(self, "_maybe_cast_dtype"):  # since version 2.1
            dtype = self._maybe_cast_dtype(dtype)
        action = Field((self.action_dim,), np.dtype(dtype).name)
        return Schema(observation, action=action)

    def _field(
        self, name: str, space: spaces.Space[Any], shape: tuple[int, ...]
    ) -> ObservationField:
        dtype = np.dtype(space.dtype).name if space.dtype is not None else "float32"
        stack = self._stack_of(name)
        if stack == 1:
            return Field(shape, dtype)
        if not shape or shape[0] % stack:
            raise ConfigError(
                f"frame_stack={stack} does not divide the first axis of shape {shape}",
                hint="the first axis holds the stacked frames",
            )
        return Frames((shape[0] // stack, *shape[1:]), dtype, stack)

    def _stack_of(self, name: str) -> int:
        given = self._frame_stack
        return given if isinstance(given, int) else given.get(name, 1)

    # ---- adding --------------------------------------------------------------------------------

    def add(
        self, obs: Any, next_obs: Any, action: Array, reward: Array, done: Array,
        infos: list[dict[str, Any]],
    ) -> None:  # fmt: skip
        """One step of every environment, as stable-baselines3 gives it."""
        self._put(self.core, obs, next_obs, action, reward, done, infos)
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full = True
            self.pos = 0

    def _put(
        self, core: ReplayBuffer, obs: Any, next_obs: Any, action: Array, reward: Array,
        done: Array, infos: list[dict[str, Any]],
    ) -> None:  # fmt: skip
        timeout = np.zeros(self.n_envs, bool)
        if self.handle_timeout_termination:
            timeout[:] = [bool(info.get("TimeLimit.truncated", False)) for info in infos]
        ended = np.asarray(done, bool).reshape(self.n_envs)
        here, there = self._given(obs), self._given(next_obs)
        actions = np.asarray(action).reshape(self.n_envs, self.action_dim)
        rewards = np.asarray(reward).reshape(self.n_envs).astype(np.float32, copy=False)
        ends = ended & ~timeout, ended & timeout
        if self.n_envs > 1:
            core.add_step(here, actions, rewards, there, *ends)
        else:  # the short way
            core.add(
                _of_one(here), actions[0], rewards[0], _of_one(there), *(end[0] for end in ends)
            )

    def _given(self, observation: Any) -> Any:
        """Observations with the axes of the schema."""
        if not self._is_dict:
            return self._shaped("", observation, self.obs_shape)
        return {
            name: self._shaped(name, observation[name], shape)
            for name, shape in self._shapes.items()
        }

    def _shaped(self, name: str, array: Any, shape: tuple[int, ...]) -> Array:
        stack = self._stack_of(name)
        if stack > 1:
            shape = (stack, shape[0] // stack, *shape[1:])
        return np.asarray(array).reshape(self.n_envs, *shape)

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        core = self.core
        empty = ReplayBuffer(
            core.schema, core.capacity, n_envs=self.n_envs, seed=self._seed, compress=core.compress
        )
        self._adopt(empty)

    # ---- as arrays -----------------------------------------------------------------------------

    # what the arrays of stable-baselines3 would hold, gathered when it is read

    @property
    def observations(self) -> Any:  # type: ignore[override]
        return self._observations(is_next=False)

    @property
    def next_observations(self) -> Any:  # type: ignore[override]
        return self._observations(is_next=True)

    def _observations(self, *, is_next: bool) -> Any:
        if self._is_dict:
            return {
                name: sb3_arrays.observations(self.core, name, shape, is_next=is_next)
                for name, shape in self._shapes.items()
            }
        return sb3_arrays.observations(self.core, "obs", self._shapes, is_next=is_next)

    @property
    def actions(self) -> Array:  # type: ignore[override]
        return self.core.store.actions.reshape(self.buffer_size, self.n_envs, self.action_dim)

    @property
    def rewards(self) -> Array:  # type: ignore[override]
        return self.core.store.rewards.reshape(self.buffer_size, self.n_envs)

    @property
    def dones(self) -> Any:  # type: ignore[override]
        return sb3_arrays.dones(self.core)

    @property
    def timeouts(self) -> Any:  # type: ignore[override]
        return sb3_arrays.timeouts(self.core)

    # ---- sampling ------------------------------------------------------------------------------

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """A batch, drawn with the same calls as stable-baselines3 does."""
        upper = self.buffer_size if self.full else self.pos
        if self.core.size != upper * self.n_envs:
            # stacks that share nothing took more rows than there are: fewer transitions are stored
            rank = self._integers(self.core.size, batch_size)
            return self._drawn(place(self.core.store, rank), env)
        return self._get_samples(self._integers(upper, batch_size), env=env)

    def _get_samples(self, batch_inds: Array, env: VecNormalize | None = None) -> Any:
        envs = self._integers(self.n_envs, len(batch_inds))
        return self._drawn(batch_inds * self.n_envs + envs, env)

    def _drawn(self, places: Array, env: VecNormalize | None) -> Any:
        def scaled(rewards: Array) -> Array:
            return self._normalize_reward(rewards, env)

        batch = self.core.get(places, n_step=self.n_steps, gamma=self.gamma, scaled=scaled)
        return self._samples(batch, env)

    def _integers(self, high: int, count: int) -> Array:
        if self._seed is None:
            return np.random.randint(0, high, size=count)
        return self.core.rng.integers(0, high, count)

    def _samples(self, batch: Batch, env: VecNormalize | None) -> Any:
        rest = [batch.terminated.astype(np.float32), batch.reward]
        if batch.discount is not None:  # versions before 2.7 have no place for it
            rest.append(batch.discount)
        tensors = [self._tensor(array.reshape(-1, 1)) for array in rest]
        obs, following = (
            self._normalize_obs(self._flat(found), env) for found in (batch.obs, batch.next_obs)
        )
        action = self._tensor(batch.action)
        if isinstance(obs, dict) and isinstance(following, dict):
            here = {name: self._tensor(array) for name, array in obs.items()}
            there = {name: self._tensor(array) for name, array in following.items()}
            return DictReplayBufferSamples(here, action, there, *tensors)
        return ReplayBufferSamples(self._tensor(obs), action, self._tensor(following), *tensors)  # type: ignore[arg-type]

    def _flat(self, observation: Any) -> Any:
        """Observations with the axes of the space: frames joined along the first."""
        if isinstance(observation, dict):
            return {
                name: array.reshape(len(array), *self._shapes[name])
                for name, array in observation.items()
            }
        return observation.reshape(len(observation), *self.obs_shape)

    def _tensor(self, array: Array) -> torch.Tensor:
        # batches are new arrays, so tensors may share their memory
        return torch.as_tensor(array, device=self.device)

    # ---- saving --------------------------------------------------------------------------------

    def save(self, folder: str | None = None) -> Saved:
        """Save what is new to `folder`, or to the folder given as `checkpoint`."""
        target = folder or self.checkpoint
        if target is None:
            raise CheckpointError(
                "no folder for checkpoints was given",
                hint='give replay_buffer_kwargs={"checkpoint": "runs/replay"}',
            )
        return self.core.save(target, keep=self.keep)

    def restore(self, folder: str | None = None) -> None:
        """Take over the checkpoint in `folder`."""
        self._adopt(ReplayBuffer.load(folder or self.checkpoint or "", schema=self.core.schema))
        added = self.core.store.streams[0].added
        self.pos, self.full = added % self.buffer_size, added >= self.buffer_size

    def _state(self) -> dict[str, Any]:
        """Attributes that are not the transitions."""
        state = vars(self)
        return {n: v for n, v in state.items() if n in self._kept_arrays or not _is_data(v)}

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: the arguments, and where the transitions were saved to."""
        saved = self.save()
        folder = str(Path(saved.folder).resolve())
        return self._state() | {"checkpoint": folder, "referenced": _REFERENCED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.pop("referenced", None) != _REFERENCED:
            raise CheckpointError(
                "the buffer was saved by another version of ramledger",
                hint="load it with that version",
            )
        vars(self).update(state)
        self._adopt(ReplayBuffer.load(state["checkpoint"]))
        added = self.core.store.streams[0].added
        self.pos, self.full = added % self.buffer_size, added >= self.buffer_size

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        found = memo[id(self)] = object.__new__(type(self))
        with tempfile.TemporaryDirectory(prefix="replay-copy-") as folder:
            self.core.save(folder)
            core = ReplayBuffer.load(folder)
        vars(found).update(copy.deepcopy(self._state(), memo))
        found._adopt(core)
        return found

    def as_baselines(self) -> BaselinesReplayBuffer:
        """The same in arrays of stable-baselines3: for a process that has no ramledger.

        It takes the memory that those take.
        """
        kinds = [one for one in type(self).__mro__ if one.__module__.startswith(_BASELINES)]
        kind = DictReplayBuffer if self._is_dict and kinds[0] is BaselinesReplayBuffer else kinds[0]
        found: BaselinesReplayBuffer = object.__new__(kind)
        theirs = {n: v for n, v in self._state().items() if n[0] != "_" or n in self._kept_arrays}
        arrays = {name: _whole(getattr(self, name)) for name in _THEIR_ARRAYS}
        vars(found).update(copy.deepcopy(theirs) | arrays)
        return found


def _of_one(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: array[0] for name, array in observation.items()}
    return observation[0]


def _whole(array: Any) -> Any:
    if isinstance(array, dict):
        return {name: np.array(one) for name, one in array.items()}
    return np.array(array)


def _is_data(value: Any) -> bool:
    return isinstance(value, np.ndarray | ReplayBuffer)
