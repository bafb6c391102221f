"""A Gymnasium loop with a replay buffer that is saved while it runs and resumed if it is there.

`python examples/replay_loop.py FOLDER [STEPS]`; run it again to go on where it was.
"""

import sys
from typing import Any

import gymnasium as gym
import numpy as np

from ramledger import CheckpointError
from ramledger.replay import Field, ReplayBuffer, Schema

SAVE_EVERY = 1000


def main(folder: str, steps: int) -> int:
    envs = gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync")
    schema = Schema(Field((4,)), action=Field((), "int64"))
    try:
        buffer = ReplayBuffer.load(folder, schema=schema)
        print(f"resumed with {len(buffer):,} transitions")
    except CheckpointError as error:
        if "no checkpoint" not in error.message:
            raise
        buffer = ReplayBuffer(schema, budget="16 MiB", n_envs=4, seed=1)
    collect(envs, buffer, folder, steps)
    saved = buffer.save(folder)
    print(f"{len(buffer):,} transitions, {saved.checkpoint_bytes:,} bytes in {saved.folder}")
    return 0


def collect(envs: Any, buffer: ReplayBuffer, folder: str, steps: int) -> None:
    obs, _ = envs.reset(seed=buffer.total_added)
    was_done = np.zeros(4, bool)
    job = None
    for step in range(1, steps + 1):
        action = envs.action_space.sample()
        next_obs, reward, terminated, truncated, _ = envs.step(action)
        for env in np.flatnonzero(~was_done):  # after an end, a step only resets
            buffer.add(
                obs[env], action[env], reward[env], next_obs[env], terminated[env], truncated[env],
                env=int(env),
            )  # fmt: skip
        was_done = terminated | truncated
        obs = next_obs
        if len(buffer) >= 256:
            buffer.sample(256)  # and an update of your networks
        if step % SAVE_EVERY == 0:
            if job is not None:
                job.wait()
            job = buffer.save_in_background(folder)
    if job is not None:
        job.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5000))
