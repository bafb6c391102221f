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


class Windows:
    """2,000 overlapping windows of 60 rows, each a copy."""

    def __init__(self) -> None:
        from collections import deque

        if CHANGED:
            from ramledger import replay

            schema = replay.Schema(
                replay.Frames((20, 5), "float32", 60), action=replay.Field((20,))
            )
            self.memory: Any = replay.ReplayBuffer(schema, capacity=2_000)
        else:
            self.memory = deque(maxlen=2_000)

    def fill(self) -> None:
        import numpy as np

        table = np.random.default_rng(0).random((2_061, 20, 5))
        for end in range(60, 2_060):
            state = table[end - 60 : end].astype(np.float32)
            next_state = table[end - 59 : end + 1].astype(np.float32)
            action, reward, done = state[-1, :, 0].copy(), 0.5, False
            if CHANGED:
                self.memory.add(state, action, reward, next_state, done)
            else:
                self.memory.append((state, action, reward, next_state, done))


def own_windows() -> Any:
    windows = Windows()
    windows.fill()
    return windows


class Rows:
    """Arrays as many people write them: float64, and each state twice."""

    def __init__(self) -> None:
        import numpy as np

        if CHANGED:
            from ramledger import replay

            schema = replay.Schema(replay.Field((120,)), action=replay.Field((8,)))
            self.buffer = replay.ReplayBuffer(schema, capacity=60_000)
        else:
            self.state = np.zeros((60_000, 120))
            self.action = np.zeros((60_000, 8))
            self.new_state = np.zeros((60_000, 120))
            self.reward = np.zeros((60_000, 1))
            self.not_done = np.zeros((60_000, 1))

    def fill(self) -> None:
        import numpy as np

        rng = np.random.default_rng(0)
        state = rng.random(120)
        for at in range(60_000):
            next_state, action, done = rng.random(120), rng.random(8), at % 500 == 499
            if CHANGED:
                self.buffer.add(state, action, 1.0, next_state, done)
            else:
                self.state[at] = state
                self.action[at] = action
                self.new_state[at] = next_state
                self.reward[at] = 1.0
                self.not_done[at] = 1.0 - done
            state = rng.random(120) if done else next_state


def own_rows() -> Any:
    rows = Rows()
    rows.fill()
    return rows


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
    cases: list[Callable[[], Any]] = [
        freed, float64, view, next_observations, own_windows, own_rows, gradients, workers,
    ]  # fmt: skip
    kept = next(case for case in cases if case.__name__ == sys.argv[1])()
    hold({})
    if hasattr(kept, "close"):
        kept.close()


if __name__ == "__main__":
    main()
