"""A loop in which nothing grows, entered by ramledger in one of several ways.

`idle_loop.py WAY SECONDS [RECORDING]`; the way `bare` knows nothing of ramledger.
"""

import sys
import time
from typing import Any

import numpy as np

TABLE_BYTES = 4 << 20


class Idler:
    """Holds the same things from its first pass to its last."""

    def __init__(self) -> None:
        self.table = np.ones(TABLE_BYTES, np.uint8)
        self.rows = [[float(number)] for number in range(500)]

    def work(self) -> float:
        self.rows[0] = [float(self.table[0])]
        time.sleep(0.02)
        return self.rest()

    def rest(self) -> float:
        time.sleep(0.02)
        return self.rows[0][0]


def idle(idler: Idler, seconds: float) -> None:
    until = time.monotonic() + seconds
    passes = 0
    while time.monotonic() < until:
        idler.work()
        passes += 1
    print(passes, flush=True)


def idle_in_phases(idler: Idler, seconds: float, ledger: Any) -> None:
    until = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:
        with ledger.phase("work", generation=number):
            idler.work()
        number += 1


def corridor() -> Any:
    import gymnasium

    class Corridor(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(0, 1, (400,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self) -> None:
            self.idler = Idler()

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            self.left = 5
            return np.zeros(400, np.float32), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            self.left -= 1
            time.sleep(0.004)
            return np.ones(400, np.float32), 1.0, self.left == 0, False, {}

    return Corridor()


def idle_in_episodes(env: Any, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        env.reset()
        done = False
        while not done:
            _, _, terminated, truncated, _ = env.step(0)
            done = terminated or truncated


def learn(seconds: float, recording: str) -> None:
    import torch
    from stable_baselines3 import PPO

    from ramledger.integrations.stable_baselines import MemoryCallback

    torch.set_num_threads(1)
    model = PPO("MlpPolicy", corridor(), n_steps=64, batch_size=64, n_epochs=1, device="cpu")
    callback = MemoryCallback(recording=recording, every_seconds=0.5, verbose=0)
    model.learn(int(seconds / 0.005), callback=callback)


def main() -> None:
    way, seconds, *rest = sys.argv[1:]
    if way == "bare":
        idle(Idler(), float(seconds))
    elif way == "record":
        import ramledger

        ledger = ramledger.record(rest[0])
        ledger.snapshot("baseline")
        idle_in_phases(Idler(), float(seconds), ledger)
        ledger.snapshot("last")
    elif way == "gymnasium":
        import ramledger
        from ramledger.integrations.gymnasium import RecordMemory

        ramledger.record(rest[0])
        env = RecordMemory(corridor(), episodes_per_block=2)
        idle_in_episodes(env, float(seconds))
        env.leak()
    else:
        learn(float(seconds), rest[0])


if __name__ == "__main__":
    print("ready", flush=True)
    main()
