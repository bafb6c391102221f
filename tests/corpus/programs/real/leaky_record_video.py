"""RecordVideo of Gymnasium keeps every frame until a video ends; here an episode never does.

Public cases: Farama-Foundation/Gymnasium#1377, #1378, #1444; isaac-sim/IsaacLab#1996.
"""

import tempfile
import warnings
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np

warnings.filterwarnings("ignore")


class Patrol(gym.Env[Any, Any]):
    """A robot that walks for ever."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.position = (self.position + int(action)) % 128
        return np.zeros(2, np.float32), 1.0, False, False, {}

    def render(self) -> Any:
        frame = np.zeros((128, 256, 3), np.uint8)
        frame[self.position] = 255
        return frame


def evaluate(env: Any) -> float:
    return float(sum(env.step(env.action_space.sample())[1] for _ in range(100)))


def train() -> Any:
    return np.linalg.svd(np.ones((260, 260)))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    with tempfile.TemporaryDirectory() as folder:
        env: Any = gym.wrappers.RecordVideo(Patrol(), folder, episode_trigger=lambda _: True)
        env.reset(seed=3)
        for generation in range(18):
            with phase(generation, "evaluate"):
                evaluate(env)
            with phase(generation, "train"):
                for _ in range(4):
                    train()
        env.recording = False
        env.recorded_frames.clear()


if __name__ == "__main__":
    run()
