"""Log-probabilities are saved for plotting with their graphs, and only the rewards are cleared."""

import time
from contextlib import nullcontext
from typing import Any

import torch


class Actor(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(96, 1024)
        self.head = torch.nn.Linear(1024, 4)
        self.saved: list[Any] = []
        self.rewards: list[float] = []

    def select_action(self, observation: Any) -> int:
        logits = self.head(torch.relu_(self.body(observation)))
        log_probs = torch.log_softmax(logits, -1)
        self.saved.append(log_probs.max())
        return int(logits[0].argmax())


def collect(actor: Actor) -> None:
    for step in range(16):
        actor.rewards.append(actor.select_action(torch.randn(96, 96)) + step * 0.1)
        time.sleep(0.01)


def finish(actor: Actor, optimizer: Any) -> None:
    loss = actor.head(torch.randn(32, 1024)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    actor.rewards.clear()


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(2)
    actor = Actor()
    optimizer = torch.optim.SGD(actor.parameters(), 1e-3)
    for update in range(20):
        with phase(update, "collect"):
            collect(actor)
        with phase(update, "learn"):
            finish(actor, optimizer)


if __name__ == "__main__":
    run()
