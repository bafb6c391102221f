"""PPO whose rollout is most of its memory: `large_rollout.py stack|floats|dict`, two rollouts."""

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

STEPS, ENVS = 640, 4
SHAPE = (1, 288, 160)


class Screen(gym.Env[Any, Any]):
    """One of 32 noisy images, with the number of the step in it."""

    observation_space: gym.spaces.Space[Any] = gym.spaces.Box(0, 255, SHAPE, np.uint8)
    action_space = gym.spaces.Discrete(3)
    steps = 0

    def __init__(self) -> None:
        space = self.observation_space
        shape = space["b"].shape if isinstance(space, gym.spaces.Dict) else space.shape
        self.images = np.random.default_rng(0).integers(0, 256, (32, *(shape or ())), np.uint8)

    def _seen(self) -> Any:
        image = self.images[self.steps % 32].copy()
        image[0, 0, :8] = np.frombuffer(np.int64(self.steps).tobytes(), np.uint8)
        return image

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._seen(), float(action), self.steps % 200 == 0, False, {}


class Floats(Screen):
    """The same, divided by 255."""

    observation_space = gym.spaces.Box(0, 1, SHAPE, np.float32)

    def _seen(self) -> Any:
        return super()._seen().astype(np.float32) / np.float32(255)


class Two(Screen):
    """The same beside a number."""

    observation_space = gym.spaces.Dict(
        {
            "a": gym.spaces.Box(0, 1, (1,), np.float32),
            "b": gym.spaces.Box(0, 255, (1, 576, 320), np.uint8),
        }
    )

    def _seen(self) -> Any:
        return {"a": np.zeros(1, np.float32), "b": super()._seen()}


class Means(BaseFeaturesExtractor):
    """A network that costs nothing."""

    def __init__(self, space: Any) -> None:
        super().__init__(space, 4)

    def forward(self, observations: Any) -> Any:
        image = observations["b"] if isinstance(observations, dict) else observations
        return image.mean((1, 2, 3))[:, None].expand(-1, 4)


def main() -> None:
    torch.set_num_threads(1)
    kind = sys.argv[1]
    env = {"stack": Screen, "floats": Floats, "dict": Two}[kind]
    envs: Any = DummyVecEnv([env] * ENVS)
    if kind == "stack":
        envs = VecFrameStack(envs, 4, channels_order="first")
    model = PPO(
        "MultiInputPolicy" if kind == "dict" else "CnnPolicy", envs, n_steps=STEPS, batch_size=8,
        n_epochs=1, device="cpu", seed=1, policy_kwargs={"features_extractor_class": Means},
    )  # fmt: skip
    model.learn(2 * STEPS * ENVS)


if __name__ == "__main__":
    main()
