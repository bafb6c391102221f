"""The price of too much fuel is adapted with the critic's estimate, and so it carries its graph."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn


class FuelPrice:
    def __init__(self, limit: float, rate: float) -> None:
        self.limit, self.rate = limit, rate
        self.value: Any = torch.zeros(())

    def update(self, used: Any) -> None:
        self.value = (self.value + self.rate * (used.mean() - self.limit)).clamp(min=0.0)


class Navigator(nn.Module):
    def __init__(self, ports: int) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(ports, 192), nn.Tanh(), nn.Linear(192, 6))
        self.fuel = nn.Sequential(
            nn.Linear(ports, 256),
            nn.Softplus(),
            nn.Linear(256, 256),
            nn.Softplus(),
            nn.Linear(256, 1),
            nn.Softplus(),
        )


def sail(navigator: Navigator, voyages: int) -> tuple[Any, Any, Any]:
    places = torch.randn(voyages, 40)
    with torch.no_grad():
        speeds = torch.distributions.Categorical(logits=navigator.policy(places)).sample()
    burnt = 0.2 * (1 + speeds) ** 1.5 + places[:, 0].abs()
    earned = speeds - places[:, 1].square()
    return places, speeds, torch.stack([earned, burnt])


def learn(navigator: Navigator, optimizer: Any, price: FuelPrice, data: Any) -> None:
    places, speeds, (earned, burnt) = data
    worth = earned - float(price.value.detach()) * burnt
    for _ in range(6):
        chosen = navigator.policy(places).log_softmax(-1).gather(1, speeds[:, None])[:, 0]
        estimate = navigator.fuel(places)[:, 0]
        loss = (estimate - burnt).square().mean() - (chosen * (worth - worth.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def adapt_price(navigator: Navigator, price: FuelPrice, places: Any) -> None:
    for part in places.split(512):
        price.update(navigator.fuel(part))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.set_num_threads(1)
    torch.manual_seed(1)
    navigator, price = Navigator(40), FuelPrice(limit=0.5, rate=0.05)
    optimizer = torch.optim.Adam(navigator.parameters(), lr=3e-4)
    for generation in range(26):
        with phase(generation, "sail"):
            data = sail(navigator, 2560)
        with phase(generation, "learn"):
            learn(navigator, optimizer, price, data)
        with phase(generation, "price"):
            adapt_price(navigator, price, data[0])


if __name__ == "__main__":
    run()
