"""What each algorithm holds by default: its networks, targets, optimizer, buffer and batch."""

from dataclasses import dataclass, replace
from typing import Literal

from ramledger.errors import ConfigError
from ramledger.plan.training_config import Framework

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


_PPO = Algorithm("PPO", "actor-critic", n_steps=2048, batch_size=64, n_epochs=10)
_Q = Algorithm(
    "DQN", "q", batch_size=32, buffer_size=1_000_000, train_freq=4, has_targets=True,
    actions="discrete",
)  # fmt: skip
_SAC = Algorithm(
    "SAC", "sac", buffer_size=1_000_000, mlp_arch=(256, 256), cnn_arch=(256, 256), n_critics=2,
    has_targets=True, actions="box", separate_critic_features=True,
)  # fmt: skip
_TD3 = replace(_SAC, name="TD3", shape="td3", mlp_arch=(400, 300))

# stable-baselines3 and sb3-contrib 2.9.2, their constructors' defaults
_SB3 = (
    _PPO,
    replace(_PPO, name="MaskablePPO"),
    replace(_PPO, name="TRPO", batch_size=128, n_epochs=10),
    replace(_PPO, name="RecurrentPPO", n_steps=128, batch_size=128, is_recurrent=True),
    replace(_PPO, name="A2C", n_steps=5, batch_size=0, n_epochs=1, optimizer="rmsprop"),
    _Q,
    replace(_Q, name="QRDQN", n_quantiles=200),
    _SAC,
    replace(_SAC, name="TQC", n_quantiles=25),
    replace(_SAC, name="CrossQ", critic_arch=(1024, 1024), has_targets=False),
    _TD3,
    replace(_TD3, name="DDPG", n_critics=1),
    Algorithm("ARS", "linear", n_steps=1, mlp_arch=(64, 64), optimizer="sgd"),
)

# cleanrl 1.x: the Args of each single file
_CLEANRL = (
    replace(_PPO, n_steps=128, batch_size=0, n_epochs=4, cnn_arch=()),
    replace(
        _Q, batch_size=128, buffer_size=10_000, mlp_arch=(120, 84), train_freq=10,
        learning_starts=10_000,
    ),
    replace(_SAC, learning_starts=5000, actions="any"),
    replace(_TD3, mlp_arch=(256, 256), learning_starts=25_000),
    replace(_TD3, name="DDPG", n_critics=1, mlp_arch=(256, 256), learning_starts=25_000),
    replace(_Q, name="C51", batch_size=128, buffer_size=10_000, mlp_arch=(120, 84),
            n_quantiles=101, learning_starts=10_000, train_freq=10),
)  # fmt: skip

# ElegantRL 0.3.6, elegantrl/train/config.py
_ELEGANTRL = (
    replace(_PPO, n_steps=2000, batch_size=128, n_epochs=8, mlp_arch=(64, 32)),
    replace(_PPO, name="A2C", n_steps=2000, batch_size=128, n_epochs=8, mlp_arch=(64, 32)),
    replace(_Q, buffer_size=1_000_000, batch_size=64, mlp_arch=(64, 32)),
    replace(_SAC, batch_size=64, mlp_arch=(64, 32)),
    replace(_TD3, batch_size=64, mlp_arch=(64, 32)),
    replace(_TD3, name="DDPG", n_critics=1, batch_size=64, mlp_arch=(64, 32)),
)

# ray 2.60: AlgorithmConfig of each algorithm, new API stack
_RLLIB = (
    replace(_PPO, n_steps=4000, batch_size=128, n_epochs=30, mlp_arch=(256, 256)),
    replace(_PPO, name="APPO", n_steps=500, batch_size=0, n_epochs=1, mlp_arch=(256, 256)),
    replace(_PPO, name="IMPALA", n_steps=500, batch_size=0, n_epochs=1, mlp_arch=(256, 256)),
    replace(_Q, buffer_size=50_000, mlp_arch=(256, 256), learning_starts=1000),
    replace(_SAC, buffer_size=1_000_000, learning_starts=1500),
)

# our own trainer: a population of agents, train/train_config.py
_AGENT = replace(
    _TD3, mlp_arch=(64, 64), batch_size=64, buffer_size=50_000, learning_starts=0, gradient_steps=64
)
_RAMLEDGER = (replace(_AGENT, name="DDPG", n_critics=1), _AGENT)

_TABLES: dict[Framework, tuple[Algorithm, ...]] = {
    "sb3": _SB3,
    "cleanrl": _CLEANRL,
    "elegantrl": _ELEGANTRL,
    "rllib": _RLLIB,
    "ramledger": _RAMLEDGER,
}
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


def find_algorithm(framework: Framework, name: str, where: str = "algorithm") -> Algorithm:
    """The algorithm of that name, however it is capitalized."""
    table = {entry.name.lower(): entry for entry in _TABLES[framework]}
    wanted = name.lower().removeprefix("agent").removesuffix("config").replace("-", "")
    # ElegantRL has classes of their own for discrete actions, and for its Hamiltonian ones
    wanted = wanted.removeprefix("discrete").removesuffix("_h")
    wanted = _OTHER_NAMES.get(wanted, wanted).lower()
    if wanted in table:
        return table[wanted]
    from difflib import get_close_matches

    near = get_close_matches(wanted, table, 1)
    known = ", ".join(entry.name for entry in _TABLES[framework])
    raise ConfigError(
        f"{where}: unknown algorithm {name!r} for {framework}",
        hint=f"did you mean {table[near[0]].name}?" if near else f"known: {known}",
    )


def algorithm_names(framework: Framework) -> tuple[str, ...]:
    return tuple(entry.name for entry in _TABLES[framework])
