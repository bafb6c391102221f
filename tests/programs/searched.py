"""An Optuna search whose trials keep as much as their settings say; its storage is a file."""

import sys
import time
from typing import Any

import numpy as np
import optuna


def objective(trial: optuna.Trial) -> float:
    rows = trial.suggest_int("buffer_size", 500, 8000, log=True)
    trial.suggest_categorical("activation", ["relu", "tanh"])
    layers: Any = [[64, 64], [512, 512]]
    widths = trial.suggest_categorical("net_arch", layers)
    buffer = np.zeros((rows, 1000))
    weights = np.ones((sum(widths), 1024))
    for episode in range(2000):
        begin = 20 * episode % rows
        buffer[begin : begin + 20] = weights[0, 0]
        time.sleep(0.005)
    return float(buffer.sum())


if __name__ == "__main__":
    study = optuna.create_study(storage=f"sqlite:///{sys.argv[1]}", load_if_exists=True)
    study.optimize(objective, n_trials=20)
