"""A short training of PPO on CartPole, as the documentation of stable-baselines3 begins with."""

import gymnasium as gym
from stable_baselines3 import PPO


def main() -> None:
    model = PPO("MlpPolicy", gym.make("CartPole-v1"), n_steps=1024, batch_size=64, seed=1)
    model.learn(30_000)


if __name__ == "__main__":
    main()
