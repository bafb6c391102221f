"""A small real training, written as anybody would: it knows nothing of ramledger.

DQN on Atari Pong where ale-py is installed, on CartPole otherwise. Prints its progress, runs until
it is stopped.
"""

from importlib.util import find_spec

import gymnasium as gym
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack


class Progress(BaseCallback):
    """Prints every 250th step."""

    def _on_step(self) -> bool:
        if self.num_timesteps % 250 == 0:
            print(f"step {self.num_timesteps}", flush=True)
        return True


def make_model() -> DQN:
    if find_spec("ale_py") is None:
        return DQN("MlpPolicy", make_vec_env("CartPole-v1"), buffer_size=1_000_000)
    import ale_py

    gym.register_envs(ale_py)
    env = VecFrameStack(make_atari_env("ALE/Pong-v5", n_envs=1, seed=0), n_stack=4)
    return DQN("CnnPolicy", env, buffer_size=10_000, learning_starts=100, train_freq=16)


def main() -> None:
    torch.set_num_threads(1)
    model = make_model()
    model.learn(10_000_000, callback=Progress())


if __name__ == "__main__":
    main()
