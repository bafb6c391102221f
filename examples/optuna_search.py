"""A search over PPO and DDPG settings that no trial can take out of its memory.

    python examples/optuna_search.py search.journal --trials 20 --limit 1GiB

Start it twice on the same file, and two processes share the study. A trial that cannot fit is
pruned before it starts, the others run in their own processes, and the table at the end shows
memory against score.
"""

import argparse
from functools import partial
from typing import Any

import optuna

from ramledger.integrations.optuna import held_to, open_study, report

ENV = "Pendulum-v1"


def settings(trial: optuna.Trial) -> dict[str, Any]:
    """What a trial will train, in the words of `ramledger.plan`."""
    algorithm = trial.suggest_categorical("algorithm", ["PPO", "DDPG"])
    width = trial.suggest_categorical("net_dim", [64, 256, 1024, 4096])
    workers = trial.suggest_int("worker_num", 1, 4)
    found = {
        "algorithm": algorithm, "env": ENV, "net_arch": [width, width],
        "batch_size": trial.suggest_categorical("batch_size", [64, 128, 256]),
        "n_envs": workers, "vec_env": "subproc" if workers > 1 else "dummy",
        "torch_threads": trial.suggest_int("thread_num", 1, 4),
    }  # fmt: skip
    off_policy = {"buffer_size": 100_000, "learning_starts": 100}
    return found | (off_policy if algorithm == "DDPG" else {"n_steps": 256})


def objective(trial: optuna.Trial, steps: int) -> float:
    """Mean return over five episodes after a short training."""
    import torch
    from stable_baselines3 import DDPG, PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    found = settings(trial)
    torch.set_num_threads(found["torch_threads"])
    kind = SubprocVecEnv if found["vec_env"] == "subproc" else DummyVecEnv
    env = make_vec_env(ENV, found["n_envs"], seed=trial.number, vec_env_cls=kind)
    more = {name: found[name] for name in ("n_steps", "buffer_size", "learning_starts")
            if name in found}  # fmt: skip
    make: Any = DDPG if found["algorithm"] == "DDPG" else PPO
    model = make("MlpPolicy", env, batch_size=found["batch_size"], device="cpu", seed=trial.number,
                 policy_kwargs={"net_arch": found["net_arch"]}, **more)  # fmt: skip
    model.learn(steps)
    score, _ = evaluate_policy(model, make_vec_env(ENV, 1, seed=1), n_eval_episodes=5, warn=False)
    return float(score)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("journal")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=5_000, help="of a trial")
    parser.add_argument("--limit", default="1GiB", help="of a trial")
    options = parser.parse_args()
    study = open_study(options.journal)
    trained = partial(objective, steps=options.steps)
    study.optimize(held_to(options.limit, plan=settings)(trained), n_trials=options.trials)
    print(report(study))


if __name__ == "__main__":
    main()
