"""PPO with four env runners; the environment of the one named by --leak keeps every step."""

import argparse
import json
import time
from typing import Any

import gymnasium
import numpy as np
import ray
from ray.cluster_utils import Cluster
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

from ramledger.integrations.rllib import MemoryCallbacks

STEPS = 25


class Corridor(gymnasium.Env[np.ndarray, int]):
    """Ends after some steps; where it leaks, each step leaves some KiB behind."""

    observation_space = gymnasium.spaces.Box(0, 1, (8,), np.float32)
    action_space: gymnasium.Space[int] = gymnasium.spaces.Discrete(2)

    def __init__(self, leak_bytes: int) -> None:
        self.history: list[np.ndarray] = []
        self.leak_bytes = leak_bytes
        self.left = STEPS

    def reset(self, *, seed=None, options=None):  # type: ignore[no-untyped-def]
        super().reset(seed=seed)
        self.left = STEPS
        return np.zeros(8, np.float32), {}

    def step(self, action):  # type: ignore[no-untyped-def]
        self.left -= 1
        if self.leak_bytes:
            self.history.append(np.ones(self.leak_bytes // 8))
        return np.full(8, 0.5, np.float32), float(action), self.left == 0, False, {}


def start(given: argparse.Namespace) -> Cluster | None:
    """One node with room for all, or several with room for a part each."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    processes = given.runners + given.learners + 1
    if given.nodes == 1:
        ray.init(num_cpus=processes, include_dashboard=False, object_store_memory=150_000_000,
                 **quiet)  # fmt: skip
        return None
    cluster = Cluster()
    for _ in range(given.nodes):
        cluster.add_node(
            num_cpus=-(-processes // given.nodes),
            include_dashboard=False,
            object_store_memory=100_000_000,
        )
    cluster.wait_for_nodes()
    print(f"address: {cluster.address}", flush=True)
    ray.init(address=cluster.address, **quiet)
    return cluster


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--leak", type=int, default=0, help="index of the leaking env runner")
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--runners", type=int, default=4)
    parser.add_argument("--learners", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1, help="nodes of Ray, all on this machine")
    parser.add_argument("--recording", default="rllib.ledger.jsonl")
    given = parser.parse_args()
    cluster = start(given)
    register_env(
        "corridor",
        lambda context: Corridor(16_000 if context.worker_index == given.leak else 0),
    )
    config = (
        PPOConfig()
        .environment("corridor")
        .env_runners(num_env_runners=given.runners, rollout_fragment_length=100)
        .training(train_batch_size_per_learner=100 * given.runners, num_epochs=1,
                  minibatch_size=100)
        .learners(num_learners=given.learners)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[16]))
        .callbacks(MemoryCallbacks.options(recording=given.recording, force=True,
                                           every_seconds=0.2))
    )  # fmt: skip
    algorithm = config.build_algo()
    memory = None
    began = time.monotonic()
    for _ in range(given.iterations):
        memory = algorithm.train()["memory"]
    seconds = time.monotonic() - began
    algorithm.stop()
    callbacks = algorithm.callbacks
    found = (callbacks[0] if isinstance(callbacks, list) else callbacks).diagnosis
    print(
        json.dumps({"memory": memory, "diagnosis": found.to_dict(), "seconds": seconds}), flush=True
    )
    ray.shutdown()
    if cluster is not None:
        cluster.shutdown()


if __name__ == "__main__":
    main()
