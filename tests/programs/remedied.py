"""Small trainings of stable-baselines3: `remedied.py KIND`; prints its parameters' hash."""

import hashlib
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack


class Pixels(gym.Env[Any, Any]):
    """A square that walks over an image of 36 × 36; episodes end, some by time."""

    observation_space: gym.spaces.Space[Any] = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.steps = self.at = 0

    def _seen(self) -> Any:
        image = np.zeros((36, 36, 1), np.uint8)
        image[self.at % 36, self.steps % 36] = 255
        return image

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.at = 0, int(self.np_random.integers(36))
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.at += 1 + int(action)
        return self._seen(), float(action), self.at % 23 == 0, self.steps >= 31, {}


class Several(Pixels):
    """The same with an image and a vector."""

    observation_space = gym.spaces.Dict(
        {
            "image": gym.spaces.Box(0, 255, (36, 36, 1), np.uint8),
            "place": gym.spaces.Box(-1, 1, (2,), np.float32),
        }
    )

    def _seen(self) -> Any:
        place = np.array([self.at % 7 / 7, self.steps / 31], np.float32)
        return {"image": super()._seen(), "place": place}


class OwnBuffer(ReplayBuffer):
    """A subclass, which may rely on the arrays."""


def on_policy(kind: str) -> Any:
    usual: dict[str, Any] = {"seed": 5, "device": "cpu", "n_steps": 500, "n_epochs": 2}
    envs = make_vec_env(Several if kind == "ppo-dict" else Pixels, n_envs=2, seed=5)
    if kind == "ppo-dict":
        return PPO("MultiInputPolicy", envs, batch_size=50, **usual)
    if kind == "ppo-stack":
        envs = VecFrameStack(envs, n_stack=4)
    return PPO("CnnPolicy", envs, batch_size=50, **usual)


def made(kind: str) -> Any:
    usual: dict[str, Any] = {"seed": 5, "device": "cpu", "buffer_size": 400, "batch_size": 16}
    usual |= {"learning_starts": 50}
    if kind == "pixels":
        frames = VecFrameStack(DummyVecEnv([Pixels]), n_stack=4)
        return DQN("CnnPolicy", frames, train_freq=8, **usual)
    if kind == "dict":
        return DQN("MultiInputPolicy", Several(), train_freq=8, **usual)
    if kind.startswith("ppo"):
        return on_policy(kind)
    if kind == "two":
        return SAC("MlpPolicy", make_vec_env("Pendulum-v1", n_envs=2, seed=5), **usual)
    extra: dict[str, Any] = {}
    if kind == "optimized":
        extra["optimize_memory_usage"] = True
        extra["replay_buffer_kwargs"] = {"handle_timeout_termination": False}
    if kind == "n-step":
        extra["n_steps"] = 3
    if kind == "subclass":
        extra["replay_buffer_class"] = OwnBuffer
    return DQN("MlpPolicy", "CartPole-v1", train_freq=4, **usual, **extra)


def main() -> None:
    torch.set_num_threads(1)
    kind, *files = sys.argv[1:]
    model = made("plain" if files else kind)
    if kind == "load":
        model.load_replay_buffer(files[0])
    model.learn(1800 if kind.startswith("ppo") else 900)
    if kind == "save":
        model.save_replay_buffer(files[0])
    numbers = hashlib.sha256()
    for parameter in model.policy.parameters():
        numbers.update(parameter.detach().numpy().tobytes())
    is_on_policy = isinstance(model, PPO)
    buffer = model.rollout_buffer if is_on_policy else model.replay_buffer
    name = type(buffer.observations if is_on_policy else buffer).__name__
    print("RESULT", numbers.hexdigest(), name, buffer.size())


if __name__ == "__main__":
    main()
