"""The whole loop against stable-baselines3's DDPG, and evaluation against agent by agent.

    python benchmarks/train_loop.py [--steps 250]

Act, step, store, sample, update: agent-steps a CPU second, one update an agent and step, one
thread. The environment is the trading environment for both; SB3 trains one agent.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import ramledger
from ramledger.train.config import checked
from ramledger.train.rollout import acting, run_episodes
from ramledger.train.tasks import TradingTask
from ramledger.train.trading import TradingEnv
from ramledger.train.trainer import Trainer
from tests.train.plain_loop import network

AGENTS, STEPS = 16, 125
HIDDEN = [256, 256]
WANTED = {256: 1.5, 32: 3.5}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=250, help="of SB3, after as many to warm up")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(
        "| loop | batch | SB3 DDPG | ramledger train | ratio | wanted |\n|---|---|---|---|---|---|"
    )
    for batch, wanted in WANTED.items():
        theirs, ours = _sb3(batch, options.steps), _ours(batch)
        print(f"| agent-steps / CPU s | {batch} | {theirs:.0f} | {ours:.0f} | {ours / theirs:.2f} "
              f"| {wanted} |", flush=True)  # fmt: skip
    one, together = _evaluations()
    print(f"| evaluation, env-steps / CPU s | | {one:.0f} agent by agent | {together:.0f} "
          f"| {together / one:.1f} | 7 |")  # fmt: skip


def _config(batch: int) -> dict[str, Any]:
    return {
        "population": AGENTS, "generations": 1, "updates": STEPS, "validation_episodes": 1,
        "learning": {"hidden": HIDDEN, "batch": batch},
        "market": {"rows": 1500, "assets": 7, "features": 2},
        "trading": {"window": 15, "steps": STEPS},
    }  # fmt: skip


def _trainer(batch: int, folder: str) -> Trainer:
    return Trainer(checked(_config(batch)), Path(folder), ledger=ramledger.record())


def _ours(batch: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(batch, folder)
        trainer._evaluate()
        best = 0.0
        for _ in range(2):
            seconds = _cpu_seconds(lambda: (trainer._evaluate(), trainer._train()))
            best = max(best, AGENTS * STEPS / seconds)
    return best


class Encoded(gymnasium.ObservationWrapper):  # type: ignore[type-arg]
    """The numbers that our networks see."""

    def __init__(self, task: TradingTask) -> None:
        super().__init__(TradingEnv(task.market, task._rules))
        self._task = task
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (task.features,), np.float32)

    def observation(self, observation: Any) -> Any:
        window = observation["market"]
        one = {"market": window.reshape(1, len(window), -1),
               "portfolio": observation["portfolio"][None]}  # fmt: skip
        return self._task.encode(one)[0]


def _sb3(batch: int, steps: int) -> float:
    from stable_baselines3 import DDPG

    with tempfile.TemporaryDirectory() as folder:
        task = _trainer(batch, folder).task
    assert isinstance(task, TradingTask)
    model = DDPG("MlpPolicy", Encoded(task), batch_size=batch, learning_starts=batch,
                 buffer_size=50_000, train_freq=1, policy_kwargs={"net_arch": HIDDEN})  # fmt: skip
    model.learn(batch + 50)
    return max(
        steps / _cpu_seconds(lambda: model.learn(steps, reset_num_timesteps=False))
        for _ in range(2)
    )


def _evaluations() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(32, folder)
    task, population = trainer.task, trainer.population
    assert isinstance(task, TradingTask)
    actors = [network(population.groups["actor"], row) for row in range(AGENTS)]
    env = Encoded(task)

    def one_by_one() -> None:
        for actor in actors:
            observation, _ = env.reset(options={"start": 20})
            for _ in range(STEPS):
                with torch.no_grad():
                    action = torch.tanh(actor(torch.from_numpy(observation))).numpy()
                observation, *_ = env.step(action)

    def together() -> None:
        first = task.training.reset(np.full(AGENTS, 20))
        run_episodes(task.training, first, task.encode, acting(population, task, 1), keep=False)

    steps = AGENTS * STEPS
    found = [steps / min(_cpu_seconds(way) for _ in range(4)) for way in (one_by_one, together)]
    return found[0], found[1]


def _cpu_seconds(action: Callable[[], Any]) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
