"""The objective of `integrations_cost`, and what a held trial costs, apart from its training.

The shape is that of the reinforcement-learning example of Optuna: A2C on CartPole, 20,000 steps,
two evaluations a trial. Run by itself it tells what a study pays once from what each trial pays.
"""

import os
import resource
import sys
import time
from multiprocessing import forkserver
from typing import Any

import gymnasium
import optuna
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor

from ramledger.integrations.optuna import held_to

STEPS, TRIALS, EXAMPLE_TRIALS = 20_000, 6, 100
TOOK = "took_cpu_seconds"


def settings(trial: optuna.Trial) -> dict[str, Any]:
    """As the example samples them."""
    width = {"tiny": [64], "small": [64, 64]}[trial.suggest_categorical("net", ["tiny", "small"])]
    return {
        "gamma": 1.0 - trial.suggest_float("gamma", 0.0001, 0.1, log=True),
        "max_grad_norm": trial.suggest_float("max_grad_norm", 0.3, 5.0, log=True),
        "gae_lambda": 1.0 - trial.suggest_float("gae_lambda", 0.001, 0.2, log=True),
        "n_steps": 2 ** trial.suggest_int("exponent_n_steps", 3, 10),
        "learning_rate": trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True),
        "ent_coef": trial.suggest_float("ent_coef", 1e-8, 0.1, log=True),
        "policy_kwargs": {"net_arch": {"pi": width, "vf": width}},
    }


def objective(trial: optuna.Trial) -> float:
    """One training, and what it took."""
    began = time.process_time()
    torch.set_num_threads(1)
    model = A2C("MlpPolicy", "CartPole-v1", device="cpu", seed=1, **settings(trial))
    evaluation = EvalCallback(
        Monitor(gymnasium.make("CartPole-v1")), n_eval_episodes=3, eval_freq=STEPS // 2, verbose=0
    )
    model.learn(STEPS, callback=evaluation)
    trial.set_user_attr(TOOK, time.process_time() - began)
    return float(evaluation.last_mean_reward)


def search(trials: int, *, is_held: bool) -> dict[str, float]:
    """CPU seconds of a study, and of it what was not in its objective; the parts of that."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    began, before = time.process_time(), _children_seconds()
    study.optimize(held_to("8GiB")(objective) if is_held else objective, n_trials=trials)
    here = time.process_time() - began
    server, forked = _server_seconds()
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    elsewhere = _children_seconds() - before
    first, *others = (trial.user_attrs[TOOK] for trial in study.trials)
    found = {"cpu": here + elsewhere, "training": first + sum(others), "server": server}
    if is_held:
        found["first"] = elsewhere - server - forked - first
        found["later"] = (forked - sum(others)) / max(1, len(others))
        found["here"] = here / trials
    return found


def _children_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def _server_seconds() -> tuple[float, float]:
    """CPU of the server itself, and of the trials that were forked from it."""
    pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    if pid is None:
        return 0.0, 0.0
    with open(f"/proc/{pid}/stat") as file:
        ticks = [int(word) for word in file.read().rsplit(")", 1)[1].split()[11:15]]
    hertz = os.sysconf("SC_CLK_TCK")
    return sum(ticks[:2]) / hertz, sum(ticks[2:]) / hertz


def main(trials: int) -> None:
    found = search(trials, is_held=True)
    training = found["training"] / trials
    once = found["server"] + found["first"]
    each = found["later"] + found["here"]
    print(f"| Optuna: what is not training, {trials} trials of A2C, {STEPS:,} steps | CPU |")
    print("|---|---|")
    print(f"| a trial's training | {training:.2f} s |")
    print(f"| once: the first trial begins and ends afresh | {found['first']:.2f} s |")
    print(f"| once: the server | {found['server']:.2f} s |")
    print(f"| each later trial: its start and end | {found['later']:.3f} s |")
    print(f"| each trial, in the search itself: watching it, Optuna | {found['here']:.3f} s |")
    print(f"| with {trials} trials, as measured | {found['cpu'] / found['training'] - 1:.1%} |")
    share = (once + each * EXAMPLE_TRIALS - found["later"]) / (training * EXAMPLE_TRIALS)
    print(f"| with {EXAMPLE_TRIALS} trials, computed from these parts | {share:.1%} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else TRIALS)
