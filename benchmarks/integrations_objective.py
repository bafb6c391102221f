"""The objective of `integrations_cost`, and what a held trial costs, apart from its training.

The shape is that of the reinforcement-learning example of Optuna: A2C on CartPole, 20,000 steps,
two evaluations a trial. Run by itself it tells what a study pays once from what each trial pays.
"""

import json
import os
import resource
import statistics
import sys
import time
from multiprocessing import forkserver
from typing import Any

import optuna
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor

from ramledger.integrations.optuna import held_to

STEPS, TRIALS, EXAMPLE_TRIALS = 20_000, 6, 100
BEGAN, TOOK = "began_cpu_seconds", "took_cpu_seconds"


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
    """One training; what the process had used before it, and what it took, is kept."""
    import gymnasium

    began = time.process_time()
    torch.set_num_threads(1)
    model = A2C("MlpPolicy", "CartPole-v1", device="cpu", seed=1, **settings(trial))
    evaluation = EvalCallback(
        Monitor(gymnasium.make("CartPole-v1")), n_eval_episodes=3, eval_freq=STEPS // 2, verbose=0
    )
    model.learn(STEPS, callback=evaluation)
    trial.set_user_attr(BEGAN, began)
    trial.set_user_attr(TOOK, time.process_time() - began)
    return float(evaluation.last_mean_reward)


def search(trials: int, *, is_held: bool) -> dict[str, float]:
    """CPU seconds of a study, and of it what was not in its objective; the parts of that."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    began, ours = time.process_time(), os.times()
    study.optimize(held_to("8GiB")(objective) if is_held else objective, n_trials=trials)
    server_seconds = _server_seconds()
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    before = ours.children_user + ours.children_system
    cpu = time.process_time() - began + children.ru_utime + children.ru_stime - before
    inside = sum(trial.user_attrs[TOOK] for trial in study.trials)
    first = study.trials[0].user_attrs[BEGAN] if is_held else 0.0
    each = (cpu - inside - server_seconds - first) / trials
    return {"cpu": cpu, "outside": cpu - inside, "server": server_seconds, "first": first,
            "each": each, "plain": statistics.median(t.user_attrs[TOOK] for t in study.trials),
            "mean": inside / trials}  # fmt: skip


def _server_seconds() -> float:
    """CPU of the server itself, without the trials that were forked from it."""
    pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    if pid is None:
        return 0.0
    with open(f"/proc/{pid}/stat") as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main(trials: int) -> None:
    found = search(trials, is_held=True)
    once, each, training = found["server"] + found["first"], found["each"], found["mean"]
    print(f"| Optuna: what is not training, {trials} trials of A2C, {STEPS:,} steps | CPU |")
    print("|---|---|")
    print(f"| a trial's training | {training:.2f} s |")
    print(f"| once: the first trial begins afresh | {found['first']:.2f} s |")
    print(f"| once: the server | {found['server']:.2f} s |")
    print(f"| each trial: start, end, watching it, Optuna | {each:.3f} s |")
    for count in (trials, EXAMPLE_TRIALS):
        how = "measured" if count == trials else "computed from these parts"
        share = (once + each * count) / (training * count)
        print(f"| with {count} trials, {how} | {share:.1%} |")
    print(json.dumps(found), file=sys.stderr)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else TRIALS)
