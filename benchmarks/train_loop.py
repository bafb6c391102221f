"""The whole loop against the DDPG of stable-baselines3 and AgileRL; evaluation, agent by agent.

    python benchmarks/train_loop.py [--steps 300] [--own-steps 40] [--rounds 4]

Act, step, store, sample, update: agent-steps a CPU second, one update an agent and step, one
thread. The environment is the trading environment for all; the peers train one agent. AgileRL is
compared where it is installed: it brings 130 packages, so that is an environment of its own.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import ramledger
from ramledger.train.rollout import acting, run_episodes
from ramledger.train.tasks import TradingTask
from ramledger.train.trading import TradingEnv
from ramledger.train.trainer import Trainer
from ramledger.trainer_config import checked
from tests.support.plain_training_loop import network

AGENTS, STEPS = 16, 125
HIDDEN = [256, 256]
Loop = Callable[[], float]  # agent-steps a CPU second
WANTED = {256: 1.5, 32: 3.5}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="of a peer in a round")
    parser.add_argument("--own-steps", type=int, default=40, help="of each agent in a round")
    parser.add_argument("--rounds", type=int, default=4, help="all take turns, the best counts")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    peers = {"SB3": _sb3} | ({"AgileRL": _agile} if find_spec("agilerl") else {})
    print("| loop | batch | peer | ramledger train | ratio | wanted |\n|---|---|---|---|---|---|")
    for batch, wanted in WANTED.items():
        loops = {"ours": _ours(batch, options.own_steps)} | {
            name: peer(batch, options.steps) for name, peer in peers.items()
        }
        best = dict.fromkeys(loops, 0.0)
        for _ in range(options.rounds):
            for name, loop in loops.items():
                best[name] = max(best[name], loop())
        for name in peers:
            print(f"| agent-steps / CPU s | {batch} | {name} {best[name]:.0f} | {best['ours']:.0f} "
                  f"| {best['ours'] / best[name]:.2f} | {wanted} |", flush=True)  # fmt: skip
    for hidden in (HIDDEN, [64, 64]):
        one, together = _evaluations(hidden)
        what = f"evaluation, env-steps / CPU s, {'×'.join(map(str, hidden))}"
        print(f"| {what} | | {one:.0f} agent by agent | {together:.0f} "
              f"| {together / one:.1f} | 7 |", flush=True)  # fmt: skip


def _config(batch: int, hidden: list[int], steps: int) -> dict[str, Any]:
    return {
        "population": AGENTS, "generations": 1, "updates": steps, "validation_episodes": 1,
        "learning": {"hidden": hidden, "batch": batch},
        "market": {"rows": 1500, "assets": 7, "features": 2},
        "trading": {"window": 15, "steps": steps},
    }  # fmt: skip


def _trainer(batch: int, folder: str, hidden: list[int] = HIDDEN, steps: int = STEPS) -> Trainer:
    return Trainer(checked(_config(batch, hidden, steps)), Path(folder), ledger=ramledger.record())


def _ours(batch: int, steps: int) -> Loop:
    folder = tempfile.TemporaryDirectory()
    trainer = _trainer(batch, folder.name, steps=steps)
    trainer._evaluate()
    trainer._train()

    def loop() -> float:
        seconds = _cpu_seconds(lambda: (trainer._evaluate(), trainer._train()))
        return AGENTS * steps / seconds

    return loop


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


def _sb3(batch: int, steps: int) -> Loop:
    from stable_baselines3 import DDPG

    with tempfile.TemporaryDirectory() as folder:
        task = _trainer(batch, folder).task
    assert isinstance(task, TradingTask)
    model = DDPG("MlpPolicy", Encoded(task), batch_size=batch, learning_starts=batch,
                 buffer_size=50_000, train_freq=1, policy_kwargs={"net_arch": HIDDEN})  # fmt: skip
    model.learn(batch + 50)
    return lambda: steps / _cpu_seconds(lambda: model.learn(steps, reset_num_timesteps=False))


def _agile(batch: int, steps: int) -> Loop:
    """The loop of its `train_off_policy` for one environment and one agent."""
    from agilerl.algorithms.ddpg import DDPG
    from agilerl.components.data import Transition
    from agilerl.components.replay_buffer import ReplayBuffer

    with tempfile.TemporaryDirectory() as folder:
        task = _trainer(batch, folder).task
    assert isinstance(task, TradingTask)
    env = Encoded(task)
    # its networks have a layer in between: narrower, they have as many parameters as ours
    agent = DDPG(env.observation_space, env.action_space, batch_size=batch, policy_freq=1,
                 net_config={"latent_dim": HIDDEN[0] // 2,
                             "encoder_config": {"hidden_size": HIDDEN[:1]},
                             "head_config": {"hidden_size": HIDDEN[1:]}})  # fmt: skip
    memory = ReplayBuffer(50_000)
    seen, _ = env.reset(seed=0)

    def run(count: int, learns: bool) -> None:
        nonlocal seen
        for _ in range(count):
            action = agent.get_action(seen[None], training=True)
            following, reward, terminated, truncated, _ = env.step(np.asarray(action)[0])
            made = Transition(obs=seen[None], action=action, reward=np.asarray([reward]),
                              next_obs=following[None], done=np.asarray([terminated]))  # fmt: skip
            transition = made.to_tensordict()
            transition.batch_size = torch.Size([1])
            memory.add(transition)
            seen = env.reset()[0] if terminated or truncated else following
            if learns:
                agent.learn(memory.sample(batch))

    run(batch + 1, learns=False)
    run(20, learns=True)
    return lambda: steps / _cpu_seconds(lambda: run(steps, learns=True))


def _evaluations(hidden: list[int]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(32, folder, hidden)
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
    best = [float("inf")] * 2
    for _ in range(8):
        for at, way in enumerate((one_by_one, together)):
            best[at] = min(best[at], _cpu_seconds(way))
    return steps / best[0], steps / best[1]


def _cpu_seconds(action: Callable[[], Any]) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
