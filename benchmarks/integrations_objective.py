"""The objective of `integrations_cost`: a function of a module, as trials in processes need it."""

import optuna
import torch
from stable_baselines3 import PPO


def objective(trial: optuna.Trial) -> float:
    """A short training of PPO."""
    torch.set_num_threads(1)
    rate = trial.suggest_float("learning_rate", 1e-4, 1e-3)
    model = PPO("MlpPolicy", "CartPole-v1", device="cpu", learning_rate=rate, seed=1)
    model.learn(10_000)
    return float(model.num_timesteps)
