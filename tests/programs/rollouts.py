"""Trainings on rollouts: `rollouts.py KIND`; prints hashes of parameters and of every batch."""

import copy
import hashlib
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack

SIDE, STEPS, ENVS = 36, 400, 2
Box = gym.spaces.Box
FLOAT_IMAGES = {
    "normalize_images": False,
    "features_extractor_kwargs": {"normalized_image": True},
}
# what the environment's pixels are divided by, and from which step on one of them is odd
FLOATS: dict[str, tuple[int, int | None]] = {
    "whole": (1, None), "divided": (255, None), "inexact": (255, 500),
}  # fmt: skip


class Noise(gym.Env[Any, Any]):
    """Random images of one frame; episodes end after a random time."""

    action_space = gym.spaces.Discrete(3)
    observation_space: gym.spaces.Space[Any] = Box(0, 255, (1, SIDE, SIDE), np.uint8)

    def _seen(self) -> Any:
        return self.np_random.integers(0, 256, (1, SIDE, SIDE)).astype(np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ends, times_out = self.np_random.random(2) < (0.03, 0.02)
        return self._seen(), float(action), bool(ends), bool(times_out and not ends), {}

    def action_masks(self) -> Any:
        return np.array([True, self.np_random.random() < 0.5, True])


class Floats(Noise):
    """The same as float32."""

    observation_space = Box(-np.inf, np.inf, (1, SIDE, SIDE), np.float32)
    divisor, odd_from = 1, None
    steps = 0

    def _seen(self) -> Any:
        self.steps += 1
        image = super()._seen().astype(np.float32) / np.float32(self.divisor)
        if self.odd_from is not None and self.steps >= self.odd_from:
            image[0, 3, 3] = 0.3
        return image


class Several(Noise):
    """The same with a vector beside it."""

    observation_space = gym.spaces.Dict(
        {"image": Box(0, 255, (1, SIDE, SIDE), np.uint8), "place": Box(-1, 1, (2,), np.float32)}
    )

    def _seen(self) -> Any:
        return {"image": super()._seen(), "place": self.np_random.random(2).astype(np.float32)}


class OwnAdd(RolloutBuffer):
    """Stores into the array itself."""

    def add(self, obs: Any, *rest: Any) -> None:
        super().add(obs, *rest)
        self.observations[self.pos - 1] = np.flip(obs, axis=-1)


class Loud(RolloutBuffer):
    """Only adds to what the library does."""

    def add(self, *rest: Any) -> None:
        self.added = getattr(self, "added", 0) + 1
        super().add(*rest)


def reading(buffer: Any) -> Any:
    return float(buffer.observations.mean()), isinstance(buffer.observations, np.ndarray)


def writing(buffer: Any) -> Any:
    buffer.observations /= 2
    buffer.observations[5, 1] = 0.25
    buffer.observations[7] += 1


def tensor(buffer: Any) -> Any:
    torch.as_tensor(buffer.observations)[3:5] = 9
    torch.from_numpy(buffer.observations)[8] = 3


def copyto(buffer: Any) -> Any:
    np.copyto(buffer.observations, buffer.observations[::-1].copy())
    np.add(buffer.observations, 1, out=buffer.observations)


def copied(buffer: Any) -> Any:
    kept = [copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer)), copy.copy(buffer)]
    found = hashlib.sha256()
    for one in kept:
        assert type(one.observations) is np.ndarray
        found.update(one.observations.tobytes())
        found.update(one.rewards.tobytes())
    return found.hexdigest()


TOUCHES: dict[str, Callable[[Any], Any]] = {
    "reading": reading, "writing": writing, "tensor": tensor, "copyto": copyto, "copied": copied,
}  # fmt: skip


class Touch(BaseCallback):
    """What a user's callback may do with the buffer, at the end of a rollout and in its middle."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.seen: list[Any] = []

    def _on_step(self) -> bool:
        if self.kind == "saved" and self.n_calls % STEPS == STEPS // 2:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.zip"
                self.model.save(path)
                self.seen.append(PPO.load(path).n_steps)
        if self.kind == "copied" and self.n_calls % STEPS == STEPS // 2:
            self.seen.append(copied(self.locals["rollout_buffer"]))
        return True

    def _on_rollout_end(self) -> None:
        if self.kind in TOUCHES:
            self.seen.append(TOUCHES[self.kind](self.locals["rollout_buffer"]))


def environments(kind: str) -> Any:
    env: Any = Several if kind.endswith("dict") else Noise
    if kind in FLOATS or kind == "writing":
        divisor, odd_from = FLOATS.get(kind, (1, None))
        env = type("Env", (Floats,), {"divisor": divisor, "odd_from": odd_from})
    envs = make_vec_env(env, n_envs=1 if kind == "one" else ENVS, seed=5)
    return VecFrameStack(envs, 3, channels_order="first")


def made(kind: str) -> Any:
    usual: dict[str, Any] = {"seed": 5, "device": "cpu", "n_steps": STEPS}
    envs = environments(kind)
    if kind in FLOATS or kind == "writing":
        usual["policy_kwargs"] = FLOAT_IMAGES
    if kind == "a2c":
        return A2C("CnnPolicy", envs, **usual)
    usual |= {"n_epochs": 1, "batch_size": 100}
    if kind.startswith("recurrent"):
        from sb3_contrib import RecurrentPPO

        usual["policy_kwargs"] = {"lstm_hidden_size": 64, "n_lstm_layers": 6}
        policy = "MultiInputLstmPolicy" if kind.endswith("dict") else "CnnLstmPolicy"
        return RecurrentPPO(policy, envs, **usual)
    if kind.startswith("maskable"):
        from sb3_contrib import MaskablePPO

        policy = "MultiInputPolicy" if kind.endswith("dict") else "CnnPolicy"
        return MaskablePPO(policy, envs, **usual)
    own = {"own-add": OwnAdd, "loud": Loud}.get(kind)
    policy = "MultiInputPolicy" if kind == "dict" else "CnnPolicy"
    return PPO(policy, envs, rollout_buffer_class=own, **usual)


def hash_batches(model: Any, batches: Any) -> None:
    """Every batch that the buffer's own `get` gives."""
    kind = type(model.rollout_buffer)
    original = kind.get

    def get(self: Any, batch_size: Any = None) -> Iterator[Any]:
        for batch in original(self, batch_size):
            for part in batch:
                add_hash(part, batches)
            yield batch

    kind.get = get


def add_hash(part: Any, batches: Any) -> None:
    if isinstance(part, torch.Tensor):
        batches.update(f"{part.dtype} {tuple(part.shape)}".encode())
        batches.update(part.contiguous().numpy().tobytes())
    else:
        for one in part.values() if isinstance(part, dict) else part:
            add_hash(one, batches)


def main() -> None:
    torch.set_num_threads(1)
    (kind,) = sys.argv[1:]
    model = made(kind)
    batches, numbers = hashlib.sha256(), hashlib.sha256()
    hash_batches(model, batches)
    touch = Touch(kind)
    model.learn(2 * STEPS * model.n_envs, callback=touch)
    for parameter in model.policy.parameters():
        numbers.update(parameter.detach().numpy().tobytes())
    seen = hashlib.sha256(repr(touch.seen).encode()).hexdigest()
    print("RESULT", numbers.hexdigest(), batches.hexdigest(), seen)


if __name__ == "__main__":
    main()
