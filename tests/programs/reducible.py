"""Programs that hold more than they need, `reducible.py CASE`; with --changed, the remedy applied.

The difference in RSS between the two runs is what the advice may promise.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from holding import hold

CHANGED = "--changed" in sys.argv
MB = 1_000_000


def trim() -> None:
    ctypes.CDLL("libc.so.6").malloc_trim(0)


def freed() -> Any:
    """120 MB in blocks of 200 kB, freed, and one survivor behind them."""
    import numpy as np

    warm_up = np.ones(2 * MB, np.uint8)
    del warm_up  # from now on blocks of 200 kB come from the heap
    blocks = [np.ones(200_000, np.uint8) for _ in range(600)]
    survivor = np.ones(50_000, np.uint8)
    del blocks
    if CHANGED:
        trim()
    return survivor


def float64() -> Any:
    import numpy as np

    return np.ones((150_000, 100), np.float32 if CHANGED else np.float64)


def view() -> Any:
    import numpy as np

    last_rows = np.ones((10_000, 10_000), np.uint8)[-10:]
    return last_rows.copy() if CHANGED else last_rows


def next_observations() -> Any:
    import numpy as np
    from gymnasium.spaces import Box, Discrete
    from stable_baselines3.common.buffers import ReplayBuffer

    buffer = ReplayBuffer(
        2_000,
        Box(0, 255, (4, 84, 84), np.uint8),
        Discrete(6),
        optimize_memory_usage=CHANGED,
        handle_timeout_termination=not CHANGED,
    )
    frame = np.full((1, 4, 84, 84), 7, np.uint8)
    nothing = np.zeros(1)
    for _ in range(2_000):
        buffer.add(frame, frame, nothing, nothing, nothing, [{}])
    return buffer


def gradients() -> Any:
    import torch

    torch.set_num_threads(1)
    networks = [torch.nn.Linear(1000, 1000) for _ in range(20)]
    for network in networks:
        network(torch.ones(1, 1000)).sum().backward()
    if CHANGED:
        for network in networks:
            network.zero_grad(set_to_none=True)
        trim()
    return networks


def workers() -> Any:
    import multiprocessing

    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv

    if CHANGED:
        multiprocessing.set_forkserver_preload(["torch", "stable_baselines3"])
    envs = make_vec_env("CartPole-v1", n_envs=3, vec_env_cls=SubprocVecEnv)
    envs.reset()
    return envs


def main() -> None:
    cases: list[Callable[[], Any]] = [freed, float64, view, next_observations, gradients, workers]
    kept = next(case for case in cases if case.__name__ == sys.argv[1])()
    hold({})
    if hasattr(kept, "close"):
        kept.close()


if __name__ == "__main__":
    main()
