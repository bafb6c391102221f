"""PPO of stable-baselines3 on CartPole: one rollout buffer, used again and again."""

from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import PPO

torch.set_num_threads(1)


def learn(model: Any) -> None:
    model.learn(512, reset_num_timesteps=False)


def test(model: Any, env: Any) -> float:
    total, (state, _) = 0.0, env.reset(seed=1)
    for _ in range(60):
        state, reward, done, _, _ = env.step(int(model.predict(state)[0]))
        total += float(reward)
        if done:
            state, _ = env.reset()
    return total


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    env = gym.make("CartPole-v1")
    model = PPO("MlpPolicy", gym.make("CartPole-v1"), n_steps=256, batch_size=64, n_epochs=2)
    for generation in range(16):
        with phase(generation, "learn"):
            learn(model)
        with phase(generation, "test"):
            test(model, env)


if __name__ == "__main__":
    run()
