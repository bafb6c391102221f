"""From generation 7 on each task adds an adapter to the shared encoder by a hook left in place."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn


class Adapter(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, inner)
        self.up = nn.Linear(inner, width)
        self.enabled = True

    def attach(self, encoder: nn.Module) -> None:
        encoder.register_forward_hook(self.correct)

    def correct(self, module: nn.Module, inputs: Any, output: Any) -> Any:
        return output + self.up(torch.relu(self.down(output))) if self.enabled else output


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(48, 256), nn.Tanh(), nn.Linear(256, 256))
        self.critic = nn.Linear(256, 1)

    def value(self, states: Any) -> Any:
        return self.critic(torch.tanh(self.encoder(states))).squeeze(-1)


def targets(states: Any, task: int) -> Any:
    return torch.sin(states.sum(-1) * (1 + task % 5) / 5)


def train(module: nn.Module, agent: Agent, task: int, steps: int) -> float:
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    loss = torch.zeros(())
    for _ in range(steps):
        states = torch.randn(64, 48)
        loss = (agent.value(states) - targets(states, task)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    agent.zero_grad()
    return float(loss.detach())


def pretrain(agent: Agent, task: int) -> float:
    return train(agent, agent, task, 40)


def adapt(agent: Agent, task: int) -> float:
    adapter = Adapter(256, 1536)
    adapter.attach(agent.encoder)
    loss = train(adapter, agent, task, 8)
    adapter.enabled = False
    return loss


@torch.no_grad()
def evaluate(agent: Agent, task: int) -> float:
    error = 0.0
    for _ in range(10):
        states = torch.randn(256, 48)
        error += float((agent.value(states) - targets(states, task)).abs().mean())
    return error / 10


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.set_num_threads(1)
    torch.manual_seed(8)
    agent = Agent()
    for generation in range(27):
        with phase(generation, "pretrain"):
            pretrain(agent, generation)
        with phase(generation, "adapt"):
            if generation >= 7:
                adapt(agent, generation)
        with phase(generation, "evaluate"):
            evaluate(agent, generation)


if __name__ == "__main__":
    run()
