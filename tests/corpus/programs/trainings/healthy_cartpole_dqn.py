"""DQN on CartPole: a replay buffer fills up to its capacity and stays there."""

import gymnasium as gym
from stable_baselines3 import DQN


def main() -> None:
    env = gym.make("CartPole-v1")
    model = DQN("MlpPolicy", env, buffer_size=10_000, learning_starts=500, seed=1)
    model.learn(40_000)


if __name__ == "__main__":
    main()
