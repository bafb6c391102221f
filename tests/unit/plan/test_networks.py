"""Parameters and buffers by arithmetic against the real modules and arrays of stable-baselines3."""

from typing import Any

import pytest
import torch

from ramledger.plan.complete_config import complete
from ramledger.plan.frameworks.sb3 import EMPTY_DICT
from ramledger.plan.plan_config import config_from
from ramledger.plan.predict import budget_of
from tests.support.plan_job import buffer_bytes, build

JOBS: dict[str, dict[str, Any]] = {
    "ppo-mlp": {"algorithm": "PPO", "policy": "MlpPolicy", "observation": "71",
                "action": "discrete:8", "n_steps": 16, "batch_size": 16},
    "ppo-box": {"algorithm": "PPO", "policy": "MlpPolicy", "observation": "5x7", "n_envs": 3,
                "action": "box:3", "n_steps": 16, "batch_size": 16, "net_arch": [32, 16]},
    "ppo-two-towers": {"algorithm": "PPO", "policy": "MlpPolicy", "observation": "9",
                       "action": "multidiscrete:3,5,2", "n_steps": 8, "batch_size": 8,
                       "net_arch": {"pi": [8], "vf": [32, 32]}},
    "ppo-cnn": {"algorithm": "PPO", "policy": "CnnPolicy", "observation": "48x40x3:uint8",
                "action": "discrete:4", "frame_stack": 4, "n_envs": 2, "n_steps": 8,
                "batch_size": 8},
    "a2c-binary": {"algorithm": "A2C", "policy": "MlpPolicy", "observation": "12",
                   "action": "multibinary:5", "n_envs": 2, "n_steps": 5},
    "ppo-dict": {"algorithm": "PPO", "policy": "MultiInputPolicy", "n_steps": 8, "batch_size": 8,
                 "observation": {"image": "40x40x3:uint8", "vector": "16"},
                 "action": "discrete:5"},
    "dqn-cnn": {"algorithm": "DQN", "policy": "CnnPolicy", "observation": "36x44x1:uint8",
                "action": "discrete:6", "n_envs": 3, "buffer_size": 100},
    "dqn-once": {"algorithm": "DQN", "policy": "MlpPolicy", "observation": "300",
                 "action": "discrete:6", "buffer_size": 100, "optimize_memory_usage": True,
                 "handle_timeout_termination": False},
    "sac": {"algorithm": "SAC", "policy": "MlpPolicy", "observation": "17:float64",
            "action": "box:6", "buffer_size": 100},
    "sac-cnn": {"algorithm": "SAC", "policy": "CnnPolicy", "observation": "40x40x3:uint8",
                "action": "box:2", "buffer_size": 10},
    "sac-her": {"algorithm": "SAC", "policy": "MultiInputPolicy", "her": True, "action": "box:4",
                "observation": {"observation": "25:float64", "achieved_goal": "3:float64",
                                "desired_goal": "3:float64"}, "buffer_size": 64, "n_envs": 2},
    "td3": {"algorithm": "TD3", "policy": "MlpPolicy", "observation": "11", "action": "box:3",
            "buffer_size": 100, "n_critics": 3},
    "td3-cnn": {"algorithm": "TD3", "policy": "CnnPolicy", "observation": "40x40x3:uint8",
                "action": "box:2", "buffer_size": 10},
    "ddpg": {"algorithm": "DDPG", "policy": "MlpPolicy", "observation": "11", "action": "box:3",
             "buffer_size": 100},
}  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_parameters_and_buffers_are_exact(name: str) -> None:
    job = {**JOBS[name]}
    planned = complete(config_from(dict(job)))
    model = build(job)
    real = sum(p.numel() for p in model.policy.parameters())
    assert planned.modules.total == real
    trained = {id(p) for group in optimizers(model) for p in group}
    sizes = {id(p): p.numel() for p in model.policy.parameters()}
    assert planned.modules.trained == sum(sizes.get(one, 0) for one in trained)
    storage = planned.framework.storage(planned)
    dicts = sum(array.rows * EMPTY_DICT for array in storage.arrays if "infos" in array.account)
    # where each environment's episode began: not worth a row
    begins = 8 * planned.n_envs if job.get("her") else 0
    assert storage.total_bytes - dicts + begins == buffer_bytes(model)


def optimizers(model: Any) -> list[list[Any]]:
    """Parameters that any optimizer of the model steps."""
    parts = [model.policy, getattr(model, "actor", None), getattr(model, "critic", None)]
    found = [getattr(part, "optimizer", None) for part in parts if part is not None]
    return [group["params"] for one in found if one is not None for group in one.param_groups]


@pytest.mark.parametrize(
    ("inputs", "hidden", "layers"), [(7, 16, 1), (3, 8, 3)], ids=["one", "three"]
)
def test_lstm_parameters(inputs: int, hidden: int, layers: int) -> None:
    from ramledger.plan.formulas.networks import lstm

    real = torch.nn.LSTM(inputs, hidden, layers)
    assert lstm(inputs, hidden, layers) == sum(p.numel() for p in real.parameters())


def test_optimizer_rows_follow_the_optimizer() -> None:
    base = {"algorithm": "PPO", "observation": "10", "action": "discrete:2"}
    sizes = {}
    for name in ("adam", "rmsprop", "sgd"):
        row = budget_of(config_from({**base, "optimizer": name})).row("optimizer")
        sizes[name] = row.span.expected if row else 0
    trained = complete(config_from(dict(base))).modules.trained * 4
    assert sizes == {"adam": 2 * trained, "rmsprop": trained, "sgd": 0}
