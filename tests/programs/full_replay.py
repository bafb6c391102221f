"""`full_replay.py KIND COUNT` fills a replay buffer of stable-baselines3 and says what it takes.

vector   376 numbers an observation, episodes of 200 steps
stack    four images of 84 × 84 that have nothing in common with the next four
pong     real frames of Pong, as AtariWrapper gives them; after some thousand they come again
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.buffers import ReplayBuffer

EPISODE = 200
PONG_STEPS = 2500
Step = tuple[Any, Any, bool]


def vectors() -> Iterator[Step]:
    rng = np.random.default_rng(0)
    while True:
        rows = rng.random((EPISODE + 1, 1, 376), np.float32)
        for at in range(EPISODE):
            yield rows[at], rows[at + 1], at == EPISODE - 1


def stacks(frames: Any) -> Iterator[Step]:
    """Episodes of these frames, with zeros before the first, as VecFrameStack makes them."""
    while True:
        now = np.zeros((1, 4, 84, 84), np.uint8)
        now[0, -1] = frames[0]
        for at in range(1, len(frames)):
            following = np.concatenate([now[:, 1:], frames[at][None, None]], axis=1)
            yield now, following, at == len(frames) - 1
            now = following


def pong() -> Any:
    import ale_py
    from stable_baselines3.common.atari_wrappers import AtariWrapper

    gym.register_envs(ale_py)
    env = AtariWrapper(gym.make("PongNoFrameskip-v4"))
    env.action_space.seed(0)
    frames = [env.reset(seed=0)[0]]
    while len(frames) < PONG_STEPS:
        found, _, terminated, truncated, _ = env.step(env.action_space.sample())
        frames.append(env.reset()[0] if terminated or truncated else found)
    return np.array(frames)[..., 0]


def rss_bytes() -> int:
    """Without files: their pages come and go."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


def main() -> None:
    kind, count = sys.argv[1], int(sys.argv[2])
    space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    actions: Any = gym.spaces.Discrete(6)
    if kind == "vector":
        space, steps = gym.spaces.Box(-9, 9, (376,), np.float32), vectors()
    elif kind == "stack":
        steps = stacks(np.random.default_rng(0).integers(0, 255, (1001, 84, 84), np.uint8))
    else:
        steps = stacks(pong())
    before = rss_bytes()
    buffer = ReplayBuffer(count, space, actions, "cpu")
    action, reward = np.ones((1, 1), np.int64), np.ones(1, np.float32)
    for _ in range(count):
        here, there, done = next(steps)
        buffer.add(here, there, action, reward, np.array([done]), [{}])
    after = rss_bytes()
    found = {"kind": type(buffer).__name__, "rss_bytes": after, "added_bytes": after - before}
    print("RESULT", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
