"""`LedgerReplayBuffer`: a drop-in for stable-baselines3, as `replay_buffer_class=`.

Array and Dict observations, timeouts and n-step returns, each observation stored once. Batches are
bit-identical to those of stable-baselines3's own buffers for the same random numbers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.buffers import ReplayBuffer as BaselinesReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from ramledger.errors import CheckpointError, ConfigError
from ramledger.replay.batch import Batch
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.checkpoints.saving import Saved
from ramledger.replay.sampling import place
from ramledger.replay.schema import Field, Frames, ObservationField, Schema
from ramledger.replay.storage.backing import Array, Backing

_REFERENCED = "ramledger.replay.sb3_buffer/1"


class LedgerReplayBuffer(BaselinesReplayBuffer):
    """`replay_buffer_kwargs` beyond those of stable-baselines3:

    checkpoint    folder: `model.save_replay_buffer` then saves there, and its file only says where
    frame_stack   how many frames the first axis of an observation holds; an int, or one a key
    n_steps, gamma    n-step returns
    seed          a generator of its own, saved and restored, instead of numpy's global one
    compress      "lz4" or "zstd": rows that have filled a block are kept compressed
    """

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
        dtype = self._maybe_cast_dtype(self.action_space.dtype)
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
        timeout = np.zeros(self.n_envs, bool)
        if self.handle_timeout_termination:
            timeout[:] = [bool(info.get("TimeLimit.truncated", False)) for info in infos]
        ended = np.asarray(done, bool).reshape(self.n_envs)
        self.core.add_step(
            self._given(obs), np.reshape(action, (self.n_envs, self.action_dim)),
            np.reshape(reward, self.n_envs).astype(np.float32, copy=False),
            self._given(next_obs), ended & ~timeout, ended & timeout,
        )  # fmt: skip
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full = True
            self.pos = 0

    def _given(self, observation: Any) -> Any:
        """Observations with the axes of the schema."""
        if not self._is_dict:
            return self._shaped("", observation, self.obs_shape)
        return {
            name: self._shaped(name, observation[name], self._shapes[name])
            for name in self.core.schema.rows
        }

    def _shaped(self, name: str, array: Array, shape: tuple[int, ...]) -> Array:
        stack = self._stack_of(name)
        if stack > 1:
            return np.reshape(array, (self.n_envs, stack, shape[0] // stack, *shape[1:]))
        return np.reshape(array, (self.n_envs, *shape))

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        core = self.core
        empty = ReplayBuffer(
            core.schema, core.capacity, n_envs=self.n_envs, seed=self._seed, compress=core.compress
        )
        self._adopt(empty)

    # ---- sampling ------------------------------------------------------------------------------

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """A batch, drawn with the same calls as stable-baselines3 does."""
        upper = self.buffer_size if self.full else self.pos
        if self.core.size != upper * self.n_envs:
            # stacks that share nothing took more rows than there are: fewer transitions are stored
            rank = self._integers(self.core.size, batch_size)
            return self._samples(self.core.get(place(self.core.store, rank), **self._steps()), env)
        return self._get_samples(self._integers(upper, batch_size), env=env)

    def _get_samples(self, batch_inds: Array, env: VecNormalize | None = None) -> Any:
        envs = self._integers(self.n_envs, len(batch_inds))
        batch = self.core.get(batch_inds * self.n_envs + envs, **self._steps())
        return self._samples(batch, env)

    def _steps(self) -> dict[str, Any]:
        return {"n_step": self.n_steps, "gamma": self.gamma}

    def _integers(self, high: int, count: int) -> Array:
        if self._seed is None:
            return np.random.randint(0, high, size=count)
        return self.core.rng.integers(0, high, count)

    def _samples(self, batch: Batch, env: VecNormalize | None) -> Any:
        rewards = self._normalize_reward(batch.reward.reshape(-1, 1), env)
        discount = None if batch.discount is None else self._tensor(batch.discount.reshape(-1, 1))
        rest = (
            self._tensor(batch.terminated.astype(np.float32).reshape(-1, 1)),
            self._tensor(rewards),
            discount,
        )
        obs, following = (
            self._normalize_obs(self._flat(found), env) for found in (batch.obs, batch.next_obs)
        )
        action = self._tensor(batch.action)
        if isinstance(obs, dict) and isinstance(following, dict):
            here = {name: self._tensor(array) for name, array in obs.items()}
            there = {name: self._tensor(array) for name, array in following.items()}
            return DictReplayBufferSamples(here, action, there, *rest)
        return ReplayBufferSamples(self._tensor(obs), action, self._tensor(following), *rest)  # type: ignore[arg-type]

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

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: the arguments, and where the transitions were saved to."""
        saved = self.save()
        state = {name: value for name, value in vars(self).items() if not _is_data(value)}
        state["checkpoint"] = str(Path(saved.folder).resolve())
        return state | {"referenced": _REFERENCED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.pop("referenced", None) != _REFERENCED:
            raise CheckpointError(
                "the buffer was saved by another version of ramledger",
                hint="load it with that version",
            )
        vars(self).update(state)
        core = ReplayBuffer.load(state["checkpoint"])
        self._adopt(core)
        added = core.store.streams[0].added
        self.pos, self.full = added % self.buffer_size, added >= self.buffer_size


def _is_data(value: Any) -> bool:
    return isinstance(value, np.ndarray | ReplayBuffer)
