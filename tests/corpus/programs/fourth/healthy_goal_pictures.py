"""The hindsight buffer holds each picture four times, as floats; it is full in generation 16."""

from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN, HerReplayBuffer

SIDE, EPISODE, STEPS = 28, 20, 400
PICTURE = gym.spaces.Box(0.0, 1.0, (SIDE * SIDE,), np.float32)


class PushBlock(gym.Env[Any, Any]):
    """Move a block on a table until the picture looks like the picture of the goal."""

    observation_space = gym.spaces.Dict(
        {"observation": PICTURE, "achieved_goal": PICTURE, "desired_goal": PICTURE}
    )
    action_space = gym.spaces.Discrete(4)
    moves = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])

    def picture(self, place: Any) -> Any:
        rows, columns = np.mgrid[0:SIDE, 0:SIDE]
        block = (np.abs(rows - place[0]) < 3) & (np.abs(columns - place[1]) < 3)
        return block.astype(np.float32).ravel()

    def observe(self) -> dict[str, Any]:
        now = self.picture(self.place)
        return {"observation": now, "achieved_goal": now, "desired_goal": self.picture(self.goal)}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.abs(achieved - desired).mean(axis=-1) > 0.02).astype(np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.integers(3, SIDE - 3, (2, 2))
        self.taken = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.place = np.clip(self.place + 2 * self.moves[int(action)], 3, SIDE - 4)
        self.taken += 1
        seen = self.observe()
        reward = float(self.compute_reward(seen["achieved_goal"], seen["desired_goal"], {}))
        return seen, reward, False, self.taken >= EPISODE, {}


def build() -> DQN:
    return DQN(
        "MultiInputPolicy",
        PushBlock(),
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "copy_info_dict": False},
        buffer_size=17 * STEPS,
        learning_starts=100,
        batch_size=64,
        train_freq=10,
        policy_kwargs={"net_arch": [64]},
        seed=3,
    )


def success_rate(model: DQN, env: PushBlock, episodes: int) -> float:
    reached = 0
    for episode in range(episodes):
        seen, _ = env.reset(seed=episode)
        for _ in range(EPISODE):
            action, _ = model.predict(seen, deterministic=True)
            seen, reward, _, _, _ = env.step(action)
        reached += reward == 0.0
    return reached / episodes


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    model, env = build(), PushBlock()
    for generation in range(30):
        with phase(generation, "learn"):
            model.learn(STEPS, reset_num_timesteps=generation == 0)
        with phase(generation, "evaluate"):
            success_rate(model, env, 5)


if __name__ == "__main__":
    run()
