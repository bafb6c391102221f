"""One framework's replay buffer, 40 % full, with a network, its optimizer and an environment.

Prints as JSON what `ramledger.record().snapshot()` sees of them, with no word said to it.
"""

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch

import ramledger

CAPACITY, STORED, WIDTH = 10_000, 4_000, 400


def stable_baselines3() -> list[Any]:
    from stable_baselines3 import DQN

    return [_trained(DQN)]


def sb3_contrib() -> list[Any]:
    from sb3_contrib import QRDQN

    return [_trained(QRDQN)]


def _trained(algorithm: Any) -> Any:
    sizes = {"buffer_size": CAPACITY, "learning_starts": 100, "train_freq": 100}
    model = algorithm("MlpPolicy", Wide(), device="cpu", **sizes)
    return model.learn(STORED)


def torchrl() -> list[Any]:
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, ReplayBuffer
    from torchrl.modules import MLP

    buffer = ReplayBuffer(storage=LazyTensorStorage(CAPACITY), batch_size=32)
    columns = {"observation": torch.rand(STORED, WIDTH), "next": torch.rand(STORED, WIDTH)}
    buffer.extend(TensorDict(columns, batch_size=[STORED]))
    return [buffer, *_learned(MLP(in_features=WIDTH, out_features=2, num_cells=[256]))]


def tianshou() -> list[Any]:
    from tianshou.data import Batch, ReplayBuffer
    from tianshou.utils.net.common import Net

    buffer = ReplayBuffer(size=CAPACITY)
    seen = np.ones(WIDTH, np.float32)
    for _ in range(STORED):
        flags = {"terminated": False, "truncated": False, "info": {}}
        buffer.add(Batch(obs=seen, act=0, rew=1.0, obs_next=seen, **flags))
    return [buffer, *_learned(Net(state_shape=(WIDTH,), action_shape=2, hidden_sizes=[256]))]


def cpprb() -> list[Any]:
    from cpprb import ReplayBuffer

    buffer = ReplayBuffer(CAPACITY, {"obs": {"shape": WIDTH}, "next_obs": {"shape": WIDTH}})
    for _ in range(STORED):
        buffer.add(obs=np.ones(WIDTH), next_obs=np.ones(WIDTH))
    return [buffer, *_learned(_network())]


def elegantrl() -> list[Any]:
    from elegantrl.train.replay_buffer import ReplayBuffer

    buffer = ReplayBuffer(CAPACITY, WIDTH, 2, gpu_id=-1)
    states, actions = torch.rand(STORED, 1, WIDTH), torch.rand(STORED, 1, 2)
    buffer.update((states, actions, torch.rand(STORED, 1), torch.rand(STORED, 1)))
    return [buffer, *_learned(_network())]


def agilerl() -> list[Any]:
    from agilerl.components.replay_buffer import ReplayBuffer
    from tensordict import TensorDict

    buffer = ReplayBuffer(max_size=CAPACITY)
    for _ in range(STORED // 100):
        columns = {"obs": torch.rand(100, WIDTH), "next_obs": torch.rand(100, WIDTH)}
        buffer.add(TensorDict(columns, batch_size=[100]))
    return [buffer, *_learned(_network())]


def cleanrl_utils() -> list[Any]:
    from cleanrl_utils.buffers import ReplayBuffer

    wide, two = Wide.observation_space, Wide.action_space
    buffer = ReplayBuffer(CAPACITY, wide, two, "cpu", handle_timeout_termination=False)
    seen = np.ones((1, WIDTH), np.float32)
    for _ in range(STORED):
        buffer.add(seen, seen, np.zeros((1, 1)), np.ones(1), np.zeros(1), [{}])
    return [buffer, *_learned(_network())]


def ray() -> list[Any]:
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode
    from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer

    buffer = EpisodeReplayBuffer(capacity=CAPACITY)
    for _ in range(STORED // 100):
        seen = [np.ones(WIDTH, np.float32) for _ in range(101)]
        given = {"actions": [0] * 100, "rewards": [1.0] * 100, "terminated": True}
        buffer.add(SingleAgentEpisode(observations=seen, len_lookback_buffer=0, **given))
    return [buffer, *_learned(_network())]


class Wide(gymnasium.Env[np.ndarray, Any]):
    """Large observations, and a table of its own."""

    observation_space = gymnasium.spaces.Box(0, 1, (WIDTH,), np.float32)
    action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.table = np.ones(200_000)
        self.left = 100

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed)
        self.left = 100
        return np.ones(WIDTH, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, Any]:
        self.left -= 1
        return np.ones(WIDTH, np.float32), 1.0, self.left == 0, False, {}


def _network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 256), torch.nn.Linear(256, 2))


def _learned(network: Any) -> list[Any]:
    optimizer = torch.optim.Adam(network.parameters())
    out = network(torch.rand(4, WIDTH))
    (out[0] if isinstance(out, tuple) else out).sum().backward()
    optimizer.step()
    return [network, optimizer, Wide()]


FRAMEWORKS: dict[str, Callable[[], list[Any]]] = {
    made.__name__: made
    for made in (stable_baselines3, sb3_contrib, torchrl, tianshou, cpprb, elegantrl, agilerl,
                 cleanrl_utils, ray)
}  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    held = FRAMEWORKS[sys.argv[1]]()
    statement = ramledger.record().snapshot()
    found: dict[str, Any] = {"objects": len(held)}
    for group in ("replay", "networks", "optimizer", "env"):
        rows = [e for e in statement.entries if e.account.partition("/")[0] == group]
        found[group] = sum(e.resident_bytes for e in rows)
        fills = [e.fill for e in rows if e.fill is not None]
        found[f"{group}_fill"] = max(fills, default=None)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
