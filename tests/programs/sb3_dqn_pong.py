"""stable-baselines3 DQN on ALE Pong with frame stacks: a real replay buffer, partly filled."""

from holding import hold, open_ledger, place_of

ledger = open_ledger()

import ale_py  # noqa: E402
import gymnasium as gym  # noqa: E402
import torch  # noqa: E402
from stable_baselines3 import DQN  # noqa: E402
from stable_baselines3.common.env_util import make_atari_env  # noqa: E402
from stable_baselines3.common.vec_env import VecFrameStack  # noqa: E402

CAPACITY, STEPS = 10_000, 2_500


def main() -> None:
    torch.set_num_threads(1)
    gym.register_envs(ale_py)
    env = VecFrameStack(make_atari_env("ALE/Pong-v5", n_envs=1, seed=0), n_stack=4)
    model = DQN("CnnPolicy", env, buffer_size=CAPACITY, learning_starts=100, train_freq=64)
    model.learn(STEPS)
    buffer = model.replay_buffer
    assert buffer is not None
    if ledger is not None:
        ledger.claim("replay", buffer)
        ledger.claim("networks/policy", model.policy)
    q_net = 4 * (
        (4 * 8 * 8 * 32 + 32) + (32 * 4 * 4 * 64 + 64) + (64 * 3 * 3 * 64 + 64)
        + (64 * 7 * 7 * 512 + 512) + (512 * 6 + 6)
    )  # fmt: skip
    truth = {
        "arrays": {
            "observations": place_of(buffer.observations),
            "next_observations": place_of(buffer.next_observations),
        },
        "fill": model.num_timesteps / CAPACITY,
        "written_bytes": model.num_timesteps * 4 * 84 * 84,
        "networks_bytes": 2 * q_net,
        "gradients_bytes": q_net,
        "optimizer_bytes": 2 * q_net,
        "modules": sum(1 for _ in model.policy.modules()),
        "parameters": 10,
    }
    hold(truth, ledger)


main()
