"""Small trainings of stable-baselines3: `remedied.py KIND,KIND [save=FOLDER] [load=FOLDER]`.

Prints the hash of the parameters of each; models and buffers are saved after or loaded before.
"""

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN, PPO, SAC, HerReplayBuffer
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize


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


class Stacked(gym.Wrapper[Any, Any, Any, Any]):
    """`Several` with the last three images on the first axis."""

    def __init__(self) -> None:
        super().__init__(Several())
        images = gym.spaces.Box(0, 255, (3, 36, 36), np.uint8)
        place = Several.observation_space["place"]
        self.observation_space = gym.spaces.Dict({"image": images, "place": place})

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        found, infos = self.env.reset(**options)
        self.images = np.repeat(found["image"].transpose(2, 0, 1), 3, axis=0)
        return {"image": self.images, "place": found["place"]}, infos

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        found, *rest = self.env.step(action)
        self.images = np.concatenate([self.images[1:], found["image"].transpose(2, 0, 1)])
        return {"image": self.images, "place": found["place"]}, *rest  # type: ignore[return-value]


class OddlyNamed(gym.ObservationWrapper[Any, Any, Any]):
    """A field of an observation whose name is no name in Python."""

    def __init__(self) -> None:
        super().__init__(gym.make("CartPole-v1"))
        self.observation_space = gym.spaces.Dict({"cart/pole": self.env.observation_space})

    def observation(self, observation: Any) -> Any:
        return {"cart/pole": observation}


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


def on_goals(kind: str, usual: dict[str, Any]) -> Any:
    """Goals are relabeled: `her`, `her-two` environments, `her-continuous`, `her-final`."""
    kinds: dict[str, Any] = {"continuous": kind == "her-continuous"}
    count = 2 if kind == "her-two" else 1
    envs = make_vec_env(BitFlippingEnv, n_envs=count, seed=5, env_kwargs={"n_bits": 6} | kinds)
    strategy = "final" if kind == "her-final" else "future"
    usual |= {"replay_buffer_class": HerReplayBuffer, "learning_starts": 80}
    usual["replay_buffer_kwargs"] = {"n_sampled_goal": 4, "goal_selection_strategy": strategy,
                                     "copy_info_dict": kind == "her-two"}  # fmt: skip
    return (SAC if kinds["continuous"] else DQN)("MultiInputPolicy", envs, train_freq=4, **usual)


def on_pixels(kind: str, usual: dict[str, Any]) -> Any:
    if kind == "dict":
        return DQN("MultiInputPolicy", Several(), train_freq=8, **usual)
    if kind == "dict-stack":
        return DQN("MultiInputPolicy", Stacked(), train_freq=8, **usual)
    frames = VecFrameStack(DummyVecEnv([Pixels]), n_stack=4)
    return DQN("CnnPolicy", frames, train_freq=8, **usual)


def of_contrib(kind: str, usual: dict[str, Any]) -> Any:
    import sb3_contrib

    if kind == "QRDQN":
        return sb3_contrib.QRDQN("MlpPolicy", "CartPole-v1", train_freq=4, **usual)
    return getattr(sb3_contrib, kind)("MlpPolicy", "Pendulum-v1", train_freq=4, **usual)


def ledger_buffer() -> Any:
    from ramledger.replay.sb3_buffer import LedgerReplayBuffer

    return LedgerReplayBuffer


def on_vectors(kind: str, usual: dict[str, Any]) -> Any:
    if kind in ("two", "normalized"):
        envs = make_vec_env("Pendulum-v1", n_envs=2, seed=5)
        if kind == "two":
            return SAC("MlpPolicy", envs, train_freq=4, **usual)
        return SAC("MlpPolicy", VecNormalize(envs), n_steps=3, train_freq=4, **usual)
    if kind == "odd-name":
        return DQN("MultiInputPolicy", OddlyNamed(), train_freq=4, **usual)
    if kind.startswith("optimized"):
        usual["optimize_memory_usage"] = True
    if kind == "optimized-twice":
        usual["replay_buffer_kwargs"] = {"handle_timeout_termination": False}
    if kind == "n-step":
        usual["n_steps"] = 3
    given: dict[str, Callable[[], Any]] = {
        "subclass": lambda: OwnBuffer, "ledger": ledger_buffer,
        "n-step-class": lambda: NStepReplayBuffer,
    }  # fmt: skip
    if kind in given:
        usual["replay_buffer_class"] = given[kind]()
    return DQN("MlpPolicy", "CartPole-v1", train_freq=4, **usual)


def made(kind: str) -> Any:
    usual: dict[str, Any] = {"seed": 5, "device": "cpu", "buffer_size": 400, "batch_size": 16}
    usual |= {"learning_starts": 50}
    if kind in ("pixels", "dict", "dict-stack"):
        return on_pixels(kind, usual)
    if kind.startswith("ppo"):
        return on_policy(kind)
    if kind.startswith("her"):
        return on_goals(kind, usual)
    if kind in ("QRDQN", "TQC"):
        return of_contrib(kind, usual)
    return on_vectors(kind, usual)


def train(kind: str, folders: dict[str, str]) -> None:
    model = made(kind)
    if "load" in folders:
        model = type(model).load(f"{folders['load']}/{kind}.zip", env=model.get_env())
        model.load_replay_buffer(f"{folders['load']}/{kind}.pkl")
    model.learn(1800 if kind.startswith("ppo") else 900)
    if kind == "optimized-twice":
        model.learn(300)
    if "save" in folders:
        model.save(f"{folders['save']}/{kind}.zip")
        model.save_replay_buffer(f"{folders['save']}/{kind}.pkl")
    numbers = hashlib.sha256()
    for parameter in model.policy.parameters():
        numbers.update(parameter.detach().numpy().tobytes())
    is_on_policy = isinstance(model, PPO)
    buffer = model.rollout_buffer if is_on_policy else model.replay_buffer
    name = type(buffer.observations if is_on_policy else buffer).__name__
    print("RESULT", numbers.hexdigest(), name, buffer.size(), flush=True)


def main() -> None:
    torch.set_num_threads(1)
    kinds, *places = sys.argv[1:]
    folders = dict(place.split("=", 1) for place in places)
    for kind in kinds.split(","):
        train(kind, folders)


if __name__ == "__main__":
    main()
