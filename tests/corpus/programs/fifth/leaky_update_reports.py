"""The drift of the policy after each update is reported as a tensor that still has its graph."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical


@dataclass(frozen=True)
class Settings:
    steps: int = 200
    epochs: int = 3
    minibatch: int = 400


@dataclass(frozen=True)
class Rollout:
    states: Any
    actions: Any
    log_probs: Any
    returns: Any


@dataclass(frozen=True)
class UpdateReport:
    loss: float
    drift: Any


@dataclass
class Learner:
    settings: Settings
    envs: Any
    reports: list[UpdateReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        layers = [nn.Linear(6, 400), nn.Tanh(), nn.Linear(400, 400), nn.Tanh()]
        self.policy = nn.Sequential(*layers, nn.Linear(400, 3))
        self.optimizer = torch.optim.Adam(self.policy.parameters(), 3e-4)
        self.state = self.envs.reset(seed=1)[0]

    def distribution(self, states: Any) -> Categorical:
        return Categorical(logits=self.policy(states))

    @torch.no_grad()
    def collect(self) -> Rollout:
        rows: list[tuple[Any, Any, Any, Any]] = []
        for _ in range(self.settings.steps):
            state = torch.as_tensor(self.state, dtype=torch.float32)
            chosen = self.distribution(state)
            action = chosen.sample()
            self.state, reward, *_ = self.envs.step(action.numpy())
            rows.append((state, action, chosen.log_prob(action), torch.as_tensor(reward)))
        *kept, rewards = (torch.stack(part) for part in zip(*rows, strict=True))
        returns = rewards.flip(0).cumsum(0).flip(0).float()
        return Rollout(*(part.flatten(0, 1) for part in (*kept, returns)))

    def drift(self, batch: Rollout, rows: Any) -> Any:
        now = self.distribution(batch.states[rows]).log_prob(batch.actions[rows])
        return (batch.log_probs[rows] - now).mean()

    def update(self, batch: Rollout) -> None:
        gains = (batch.returns - batch.returns.mean()) / (batch.returns.std() + 1e-6)
        for _ in range(self.settings.epochs):
            for rows in torch.randperm(len(gains)).split(self.settings.minibatch):
                now = self.distribution(batch.states[rows]).log_prob(batch.actions[rows])
                ratio = (now - batch.log_probs[rows]).exp()
                loss = -torch.min(ratio * gains[rows], ratio.clamp(0.8, 1.2) * gains[rows]).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.reports.append(UpdateReport(loss.item(), self.drift(batch, rows)))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    learner = Learner(Settings(), gym.make_vec("Acrobot-v1", 8, "sync"))
    for generation in range(24):
        with phase(generation, "collect"):
            batch = learner.collect()
        with phase(generation, "update"):
            learner.update(batch)


if __name__ == "__main__":
    run()
