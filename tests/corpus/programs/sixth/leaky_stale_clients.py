"""From generation 8 on, updates of slow hospitals wait in a heap for a round that is long over."""

import heapq
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class ClientConfig:
    shift: float
    delay: int = 0


@dataclass(order=True)
class ClientUpdate:
    due: int
    order: int
    weights: dict[str, Any] = field(compare=False)


@dataclass
class Federation:
    model: nn.Module
    clients: list[ClientConfig]
    round: int = 0
    handed_in: int = 0
    waiting: list[ClientUpdate] = field(default_factory=list)

    def hand_in(self, client: ClientConfig, weights: dict[str, Any]) -> None:
        self.handed_in += 1
        update = ClientUpdate(self.round - client.delay, self.handed_in, weights)
        heapq.heappush(self.waiting, update)

    def take_due(self) -> list[ClientUpdate]:
        taken = [update for update in self.waiting if update.due == self.round]
        self.waiting = [update for update in self.waiting if update.due != self.round]
        heapq.heapify(self.waiting)
        return taken


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 640), nn.Tanh(), nn.Linear(640, 640), nn.Linear(640, 8))


def train_client(federation: Federation, client: ClientConfig) -> dict[str, Any]:
    local = make_model()
    local.load_state_dict(federation.model.state_dict())
    optimizer = torch.optim.SGD(local.parameters(), lr=1e-2)
    for _ in range(6):
        states = torch.randn(64, 64) + client.shift
        loss = -(local(states).log_softmax(-1) * states[:, :8].sin()).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return local.state_dict()


def train_clients(federation: Federation) -> None:
    for client in federation.clients:
        federation.hand_in(client, train_client(federation, client))


def average(federation: Federation) -> None:
    due = federation.take_due()
    for key, value in federation.model.state_dict().items():
        value.copy_(torch.stack([update.weights[key] for update in due]).mean(0))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.set_num_threads(1)
    torch.manual_seed(4)
    clients = [ClientConfig(0.1 * i) for i in range(4)]
    federation = Federation(make_model(), clients)
    for generation in range(28):
        federation.round = generation
        if generation == 8:
            clients += [ClientConfig(-0.2 * i, delay=1 + i) for i in range(3)]
        with phase(generation, "clients"):
            train_clients(federation)
        with phase(generation, "average"):
            average(federation)


if __name__ == "__main__":
    run()
