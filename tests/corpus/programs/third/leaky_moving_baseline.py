"""Actor-critic whose moving baseline is a tensor: each bootstrap value stays with its graph."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

torch.set_num_threads(1)


@dataclass
class Batch:
    observations: torch.Tensor
    following: torch.Tensor
    rewards: torch.Tensor


class ActorCritic:
    def __init__(self) -> None:
        self.actor = nn.Sequential(nn.Linear(48, 256), nn.Tanh(), nn.Linear(256, 6))
        self.critic = nn.Sequential(
            nn.Linear(48, 384), nn.Tanh(), nn.Linear(384, 384), nn.Tanh(), nn.Linear(384, 1)
        )
        parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.RMSprop(parameters, lr=3e-4)
        self.baseline: Any = torch.zeros(())

    def bootstrap(self, batch: Batch) -> torch.Tensor:
        values: torch.Tensor = self.critic(batch.following).squeeze(-1)
        self.baseline = 0.95 * self.baseline + 0.05 * values.mean()
        return batch.rewards + 0.99 * values.detach()

    def learn(self, batch: Batch) -> float:
        targets = self.bootstrap(batch)
        values = self.critic(batch.observations).squeeze(-1)
        logits = self.actor(batch.observations).log_softmax(-1)[:, 0]
        advantage = (targets - self.baseline).detach()
        loss = (targets - values).pow(2).mean() - (logits * advantage).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.item())


def collect(size: int) -> list[Batch]:
    made = []
    for _ in range(4):
        walk = torch.randn(size + 1, 48).cumsum(0).div(10)
        made.append(Batch(walk[:-1], walk[1:], torch.rand(size)))
    return made


def update(agent: ActorCritic, batches: list[Batch]) -> list[float]:
    return [agent.learn(batch) for batch in batches]


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(0)
    agent = ActorCritic()
    for generation in range(36):
        with phase(generation, "collect"):
            batches = [batch for _ in range(2) for batch in collect(200)]
        with phase(generation, "update"):
            update(agent, batches)


if __name__ == "__main__":
    run()
