"""A hand-written population trainer: 8 DDPG agents, market windows, a replay buffer of dicts.

Prints its own truth: a JSON line at the end of every iteration, and one when `main` is over.
"""

import argparse
import contextlib
import copy
import gc
import json
import random
import time
from collections import deque
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3  # noqa: F401
import torch
from torch import nn

with contextlib.suppress(ImportError):
    import pandas  # type: ignore[import-untyped] # noqa: F401

POPULATION, ITERATIONS, CAPACITY = 8, 14, 1500
DAYS, ASSETS, FEATURES, LOOKBACK, ACTIONS = 504, 117, 5, 24, 16
STEPS_PER_AGENT = 19  # the buffer is full in the tenth iteration


def memory() -> dict[str, float]:
    """What the kernel says of this process, in bytes, and when."""
    with open("/proc/self/status") as status:
        sizes = dict(line.split(":", 1) for line in status)
    return {
        "at": time.time(),
        "rss_bytes": int(sizes["VmRSS"].split()[0]) * 1024,
        "peak_bytes": int(sizes["VmHWM"].split()[0]) * 1024,
    }


class Bar:
    """One asset on one day, as it was parsed."""

    def __init__(self, day: int, asset: int, close: float) -> None:
        self.day = day
        self.asset = asset
        self.close = close


class TradingEnvironment(gymnasium.Env[np.ndarray, np.ndarray]):
    """Holds data windows of (504, 117, 5); an observation is a copy of 24 of the days."""

    def __init__(self, seed: int, windows: int, step_seconds: float) -> None:
        generator = np.random.default_rng(seed)
        self.windows = [
            generator.standard_normal((DAYS, ASSETS, FEATURES), dtype=np.float32)
            for _ in range(windows)
        ]
        self.bars = [
            Bar(day, asset, float(self.windows[0][day, asset, 3]))
            for day in range(DAYS)
            for asset in range(ASSETS)
        ]
        self.step_seconds = step_seconds
        self.window = self.windows[0]
        self.day = LOOKBACK

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self.window = random.choice(self.windows)
        self.day = random.randrange(LOOKBACK, DAYS - STEPS_PER_AGENT - 1)
        return self.observation(), {}

    def observation(self) -> np.ndarray:
        return self.window[self.day - LOOKBACK : self.day].copy()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(self.step_seconds)  # the exchange allows so many requests a second
        self.day += 1
        reward = float(self.window[self.day, :ACTIONS, 3] @ action)
        return self.observation(), reward, self.day >= DAYS - 1, False, {}


class ReplayBuffer:
    def __init__(self, capacity: int) -> None:
        self.buffer: deque[dict[str, Any]] = deque(maxlen=capacity)

    def add(
        self,
        state: np.ndarray,
        action: np.ndarray,
        reward: float,
        next_state: np.ndarray,
        done: bool,
    ) -> None:
        self.buffer.append(
            {
                "state": state.astype(np.float32),
                "action": action,
                "reward": reward,
                "next_state": next_state.astype(np.float32),
                "done": done,
            }
        )

    def sample(self, batch_size: int) -> tuple[torch.Tensor, ...]:
        batch = random.sample(self.buffer, batch_size)
        return tuple(
            torch.as_tensor(np.stack([np.float32(one[key]) for one in batch]))
            for key in ("state", "action", "reward", "next_state", "done")
        )

    def __len__(self) -> int:
        return len(self.buffer)


class Actor(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(),
            nn.Linear(LOOKBACK * ASSETS * FEATURES, width),
            nn.ReLU(),
            nn.Linear(width, ACTIONS),
            nn.Tanh(),
        )

    def forward(self, state: torch.Tensor) -> Any:
        return self.net(state)


class Critic(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(LOOKBACK * ASSETS * FEATURES, width), nn.ReLU()
        )
        self.head = nn.Linear(width + ACTIONS, 1)

    def forward(self, state: torch.Tensor, action: torch.Tensor) -> Any:
        return self.head(torch.cat([self.encoder(state), action], 1))


class DDPGAgent:
    def __init__(self, agent_id: int) -> None:
        self.agent_id = agent_id
        self.fitness = 0.0
        self.actor = Actor()
        self.critic = Critic()
        self.actor_target = copy.deepcopy(self.actor)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), 1e-4)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), 1e-3)

    def act(self, state: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            action: np.ndarray = self.actor(torch.from_numpy(state)[None])[0].numpy()
        return (action + np.random.normal(0, 0.1, ACTIONS)).astype(np.float32)

    def update(self, batch: tuple[torch.Tensor, ...]) -> float:
        state, action, reward, next_state, done = batch
        with torch.no_grad():
            following = self.critic_target(next_state, self.actor_target(next_state))[:, 0]
            target = reward + 0.99 * (1 - done) * following
        critic_loss = nn.functional.mse_loss(self.critic(state, action)[:, 0], target)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()  # type: ignore[no-untyped-call]
        self.critic_optimizer.step()
        actor_loss = -self.critic(state, self.actor(state)).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()
        self.follow(self.actor_target, self.actor)
        self.follow(self.critic_target, self.critic)
        return float(critic_loss.detach())

    @staticmethod
    def follow(target: nn.Module, source: nn.Module, tau: float = 0.005) -> None:
        with torch.no_grad():
            for old, new in zip(target.parameters(), source.parameters(), strict=True):
                old.lerp_(new, tau)


class ERLTrainer:
    """Evolutionary reinforcement learning: evaluate, train, evolve."""

    def __init__(self, iteration_seconds: float) -> None:
        third = iteration_seconds / 3
        step_seconds = third / (POPULATION * STEPS_PER_AGENT)
        self.train_env = TradingEnvironment(1, windows=12, step_seconds=step_seconds)
        self.eval_env = TradingEnvironment(2, windows=4, step_seconds=step_seconds)
        self.replay_buffer = ReplayBuffer(CAPACITY)
        self.population = [DDPGAgent(number) for number in range(POPULATION)]
        self.agent_seconds = third / POPULATION
        self.evolve_seconds = third
        self.history: list[dict[str, float]] = []

    def train(self, iterations: int) -> None:
        print(json.dumps({"training": True, **memory()}), flush=True)
        for iteration in range(iterations):
            loss = self.train_population()
            best = max(agent.fitness for agent in self.population)
            self.history.append({"iteration": iteration, "loss": loss, "best": best})
            truth = {"iteration": iteration, "buffer_length": len(self.replay_buffer), **memory()}
            if iteration in (0, iterations - 1):
                truth["tracked_objects"] = len(gc.get_objects())
            print(json.dumps(truth), flush=True)

    def train_population(self) -> float:
        self.evaluate_population()
        loss = self.train_agents()
        self.evolve_population()
        return loss

    def evaluate_population(self) -> None:
        for agent in self.population:
            env = self.train_env if agent.agent_id % 2 else self.eval_env
            agent.fitness = self.play(agent, env)

    def play(self, agent: DDPGAgent, env: TradingEnvironment) -> float:
        total = 0.0
        state, _ = env.reset()
        for _ in range(STEPS_PER_AGENT):
            action = agent.act(state)
            next_state, reward, done, _, _ = env.step(action)
            self.replay_buffer.add(state, action, reward, next_state, done)
            state = next_state
            total += reward
        return total

    def train_agents(self, updates: int = 4, batch_size: int = 32) -> float:
        losses = []
        for agent in self.population:
            for _ in range(updates):
                losses.append(agent.update(self.replay_buffer.sample(batch_size)))
                time.sleep(self.agent_seconds / updates)
        return float(np.mean(losses))

    def evolve_population(self, replaced: int = 2) -> None:
        ranked = sorted(self.population, key=lambda agent: agent.fitness, reverse=True)
        for parent, loser in zip(ranked, reversed(ranked[-replaced:]), strict=False):
            child = copy.deepcopy(parent)
            child.agent_id = loser.agent_id
            with torch.no_grad():
                for parameter in child.actor.parameters():
                    parameter.add_(torch.randn_like(parameter), alpha=0.01)
            self.population[self.population.index(loser)] = child
            time.sleep(self.evolve_seconds / replaced)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--iteration-seconds", type=float, default=5.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    trainer = ERLTrainer(args.iteration_seconds)
    trainer.train(args.iterations)


if __name__ == "__main__":
    main()
    print(json.dumps({"ended": True, **memory()}), flush=True)
