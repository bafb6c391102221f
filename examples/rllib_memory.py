"""RLlib with memory in its results: PPO on CartPole, two env runners, one recording.

python examples/rllib_memory.py        (needs: pip install 'ramledger[ray,train]')
"""

import ray
from ray.rllib.algorithms.ppo import PPOConfig

from ramledger.integrations.rllib import MemoryCallbacks
from ramledger.units import format_bytes


def main() -> None:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2)
        .training(train_batch_size_per_learner=1_000, num_epochs=2)
        .callbacks(MemoryCallbacks.options(recording="rllib.ledger.jsonl", force=True))
    )
    algorithm = config.build_algo()
    for _ in range(12):
        memory = algorithm.train()["memory"]
        runners = memory["env_runners"]
        print(
            f"{memory['processes']} processes, driver {format_bytes(memory['driver_rss_bytes'])}, "
            f"largest runner {format_bytes(runners['rss_max_bytes'])}, "
            f"object store {format_bytes(memory['object_store']['used_bytes'])}"
        )
    algorithm.stop()  # prints the verdict


if __name__ == "__main__":
    main()
