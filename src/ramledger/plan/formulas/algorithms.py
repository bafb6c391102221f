"""Families of algorithms: networks, targets, optimizer, buffer and batch by default.

A framework names its own algorithms and changes these defaults: plan/frameworks/.
"""

from dataclasses import dataclass, replace
from typing import Literal

Shape = Literal["actor-critic", "q", "sac", "td3", "linear"]
Optimizer = Literal["adam", "adamw", "rmsprop", "sgd"]

OPTIMIZER_COPIES = {"adam": 2, "adamw": 2, "rmsprop": 1, "sgd": 0}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Defaults of one algorithm in one framework; `n_steps` is 0 for off-policy ones."""

    name: str
    shape: Shape
    n_steps: int = 0
    batch_size: int = 256
    n_epochs: int = 1
    buffer_size: int = 0
    learning_starts: int = 100
    train_freq: int = 1
    gradient_steps: int = 1
    mlp_arch: tuple[int, ...] = (64, 64)
    critic_arch: tuple[int, ...] = ()
    cnn_arch: tuple[int, ...] = ()
    n_critics: int = 1
    n_quantiles: int = 0
    optimizer: Optimizer = "adam"
    has_targets: bool = False
    actions: Literal["any", "discrete", "box"] = "any"
    is_recurrent: bool = False
    separate_critic_features: bool = False

    @property
    def is_on_policy(self) -> bool:
        return self.n_steps > 0


# defaults of stable-baselines3, from which the others differ
PPO = Algorithm("PPO", "actor-critic", n_steps=2048, batch_size=64, n_epochs=10)
DQN = Algorithm(
    "DQN", "q", batch_size=32, buffer_size=1_000_000, train_freq=4, has_targets=True,
    actions="discrete",
)  # fmt: skip
SAC = Algorithm(
    "SAC", "sac", buffer_size=1_000_000, mlp_arch=(256, 256), cnn_arch=(256, 256), n_critics=2,
    has_targets=True, actions="box", separate_critic_features=True,
)  # fmt: skip
TD3 = replace(SAC, name="TD3", shape="td3", mlp_arch=(400, 300))

_OTHER_NAMES = {
    "ppolstm": "RecurrentPPO",
    "ppo_lstm": "RecurrentPPO",
    "recurrentppo": "RecurrentPPO",
    "ddqn": "DQN",
    "doubledqn": "DQN",
    "d3qn": "DQN",
    "duelingdqn": "DQN",
    "modsac": "SAC",
    "reppo": "RecurrentPPO",
}


def common_name(name: str) -> str:
    """The name that tables have, in lower case: "AgentDiscretePPO" and "PPOConfig" are PPO."""
    wanted = name.lower().removeprefix("agent").removesuffix("config").replace("-", "")
    # ElegantRL has other classes for discrete actions, and for its Hamiltonian agents
    wanted = wanted.removeprefix("discrete").removesuffix("_h")
    return _OTHER_NAMES.get(wanted, wanted).lower()
