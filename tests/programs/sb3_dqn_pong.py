"""stable-baselines3 DQN on ALE Pong with frame stacks: a real replay buffer, partly filled."""

from holding import hold, open_ledger

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
    model = DQN("CnnPolicy", env, buffer_size=CAPACITY, learning_starts=100, train_freq=16)
    model.learn(STEPS)
    buffer = model.replay_buffer
    assert buffer is not None
    if ledger is not None:
        ledger.claim("replay", buffer)
        ledger.claim("networks/policy", model.policy)
    frame_bytes = 4 * 84 * 84
    truth = {
        "observations_bytes": CAPACITY * frame_bytes,
        "observations_written_bytes": buffer.size() * frame_bytes,
        "fill": buffer.size() / CAPACITY,
        "networks_bytes": sum(p.numel() * 4 for p in model.policy.parameters()),
    }
    hold(truth, ledger)


main()
