"""The trainings of the table of remedies: `python -m benchmarks.remedy_trainings NAME`.

Each prints one line of JSON: steps a second of processor time, which holds on a busy machine, too,
and a hash of its parameters at the end.
"""

import hashlib
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium as gym
import numpy as np
import torch

Array = np.ndarray[Any, Any]


def hash_of(parameters: Iterable[torch.Tensor]) -> str:
    found = hashlib.sha256()
    for parameter in parameters:
        found.update(parameter.detach().numpy().tobytes())
    return found.hexdigest()[:16]


def learn(model: Any, steps: int) -> tuple[float, str]:
    started = time.process_time()
    model.learn(steps)
    return steps / (time.process_time() - started), hash_of(model.policy.parameters())


# ---- stable-baselines3 -------------------------------------------------------------------------


def dqn_pong() -> tuple[float, str]:
    """100,000 transitions of Atari Pong, stacks of 4, the buffer full at the end."""
    import ale_py
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    gym.register_envs(ale_py)
    env = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=1, seed=0), n_stack=4)
    model = DQN(
        "CnnPolicy", env, buffer_size=100_000, learning_starts=80_000, train_freq=64, seed=3,
        device="cpu",
    )  # fmt: skip
    return learn(model, 100_000)


class Screen(gym.Env[Any, Any]):
    """Pictures of 144×160×3 that change from step to step."""

    observation_space = gym.spaces.Box(0, 255, (144, 160, 3), np.uint8)
    action_space = gym.spaces.Discrete(7)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self._seen(), float(action == 3), self.steps >= 1_000, False, {}

    def _seen(self) -> Array:
        return self.np_random.integers(0, 255, (144, 160, 3), dtype=np.uint8)


def ppo_screens() -> tuple[float, str]:
    """2 environments × 8,192 steps of stacks of 4 pictures: one rollout, one epoch."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecFrameStack

    env = VecFrameStack(make_vec_env(Screen, n_envs=2, seed=0), n_stack=4)
    model = PPO("CnnPolicy", env, n_steps=8_192, batch_size=128, n_epochs=1, seed=1, device="cpu")
    return learn(model, 16_384)


class Body(gym.Env[Any, Any]):
    """As large as HalfCheetah: 17 numbers seen, 6 moved."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (17,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (6,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.normal(size=17), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.np_random.normal(size=17), float(action[0]), False, self.steps >= 1_000, {}


def sac_body() -> tuple[float, str]:
    """4 environments, a buffer of 400,000, full at the end."""
    from stable_baselines3 import SAC
    from stable_baselines3.common.env_util import make_vec_env

    env = make_vec_env(Body, n_envs=4, seed=0)
    model = SAC(
        "MlpPolicy", env, buffer_size=400_000, learning_starts=5_000, train_freq=100, seed=1,
        device="cpu",
    )  # fmt: skip
    return learn(model, 400_000)


# ---- a trainer that somebody wrote, before and after --------------------------------------------

WINDOW, COLUMNS, FEATURES, KEPT, AGENTS = 120, 108, 9, 1_500, 4


class Trainer:
    """A population that learns from windows over market data; `--changed`: as advised."""

    def __init__(self, changed: bool) -> None:
        self.changed = changed
        self.rng = np.random.default_rng(0)
        self.data = self.rng.normal(size=(6_000, COLUMNS, FEATURES)).astype(np.float32)
        self.agents = [torch.nn.Linear(COLUMNS * FEATURES, COLUMNS) for _ in range(AGENTS)]
        self.optimizers = [torch.optim.Adam(agent.parameters(), 1e-3) for agent in self.agents]
        if changed:
            from ramledger import replay

            schema = replay.Schema(
                replay.Frames((COLUMNS, FEATURES), "float32", WINDOW),
                action=replay.Field((COLUMNS,)),
            )
            self.memory: Any = replay.ReplayBuffer(schema, capacity=KEPT)
        else:
            self.memory = deque(maxlen=KEPT)

    def remember(self, state: Array, action: Array, reward: float, next_state: Array) -> None:
        if self.changed:
            self.memory.add(state, action, reward, next_state, False)
        else:
            self.memory.append((state, action, reward, next_state, False))

    def drawn(self, count: int) -> tuple[Array, Array]:
        index = self.rng.integers(0, len(self.memory), count)
        if self.changed:
            batch = self.memory.get(self.memory.ordered()[index])
            return batch.obs, batch.action
        rows = [self.memory[at] for at in index]
        return np.stack([row[0] for row in rows]), np.stack([row[1] for row in rows])

    def collect(self, agent: torch.nn.Module, first: int, steps: int) -> None:
        state = self.data[first : first + WINDOW].copy()
        for at in range(first + 1, first + 1 + steps):
            next_state = self.data[at : at + WINDOW].copy()
            with torch.no_grad():
                action = agent(torch.from_numpy(state[-1].reshape(-1))).numpy()
            self.remember(state, action, float(action.mean()), next_state)
            state = next_state

    def update(self, agent: torch.nn.Module, optimizer: Any) -> None:
        states, actions = self.drawn(64)
        inputs = torch.from_numpy(np.ascontiguousarray(states).mean(axis=1)).flatten(1)
        loss = (agent(inputs) - torch.from_numpy(np.ascontiguousarray(actions))).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def generation(self, number: int) -> None:
        for at, (agent, optimizer) in enumerate(zip(self.agents, self.optimizers, strict=True)):
            self.collect(agent, (number * 977 + at * 131) % 5_000, 250)
            for _ in range(25):
                self.update(agent, optimizer)


def own_trainer(changed: bool = False) -> tuple[float, str]:
    """A deque of 1,500 windows of 120 × 108 × 9 numbers."""
    torch.manual_seed(0)
    trainer = Trainer(changed)
    started, generations = time.process_time(), 12
    for number in range(generations):
        trainer.generation(number)
    steps = generations * AGENTS * 250
    speed = steps / (time.process_time() - started)
    return speed, hash_of(one for agent in trainer.agents for one in agent.parameters())


def own_trainer_changed() -> tuple[float, str]:
    return own_trainer(changed=True)


TRAININGS: dict[str, Callable[[], tuple[float, str]]] = {
    "dqn_pong": dqn_pong,
    "ppo_screens": ppo_screens,
    "sac_body": sac_body,
    "own_trainer": own_trainer,
    "own_trainer_changed": own_trainer_changed,
}


def main() -> None:
    torch.set_num_threads(1)
    speed, parameters = TRAININGS[sys.argv[1]]()
    print("RESULT " + json.dumps({"steps_per_second": speed, "parameters": parameters}))


if __name__ == "__main__":
    main()
