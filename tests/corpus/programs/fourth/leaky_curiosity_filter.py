"""The running return of the curiosity bonus is a tensor that leads back to all earlier bonuses."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

ACTORS, SIDE = 16, 42


def encoder(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 5, stride=2),
        nn.LeakyReLU(),
        nn.Conv2d(width, width, 3, stride=2),
        nn.LeakyReLU(),
        nn.Flatten(),
        nn.Linear(width * 81, 64),
    )


class Curiosity(nn.Module):
    """Distillation of a random network: what cannot be predicted is new."""

    def __init__(self) -> None:
        super().__init__()
        self.target = encoder(8).requires_grad_(False)
        self.predictor = encoder(16)

    def novelty(self, frames: Any) -> Any:
        return (self.predictor(frames) - self.target(frames)).square().mean(dim=1)


class BonusFilter:
    """Scales bonuses by the spread of their discounted sum."""

    def __init__(self, discount: float) -> None:
        self.discount = discount
        self.returns = torch.zeros(ACTORS)

    def scaled(self, bonus: Any) -> Any:
        self.returns = self.discount * self.returns + bonus
        return bonus / (self.returns.std() + 1e-6)


def play(generator: Any, frames: Any, steps: int) -> list[Any]:
    seen = []
    for _ in range(steps):
        shift = int(torch.randint(0, SIDE, (1,), generator=generator))
        noise = torch.rand(frames.shape, generator=generator)
        frames = 0.8 * frames.roll(shift, dims=-1) + 0.2 * noise
        seen.append(frames)
    return seen


def add_bonus(curiosity: Curiosity, scale: BonusFilter, seen: list[Any]) -> float:
    bonuses = [scale.scaled(curiosity.novelty(frames).sqrt()) for frames in seen]
    return sum(float(bonus.sum()) for bonus in bonuses)


def distill(curiosity: Curiosity, optimizer: Any, seen: list[Any]) -> None:
    for _ in range(4):
        for frames in seen:
            loss = curiosity.novelty(frames).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    generator = torch.Generator().manual_seed(12)
    torch.manual_seed(12)
    curiosity, scale = Curiosity(), BonusFilter(0.99)
    optimizer = torch.optim.SGD(curiosity.predictor.parameters(), 1e-3)
    frames = torch.rand(ACTORS, 1, SIDE, SIDE, generator=generator)
    for generation in range(26):
        with phase(generation, "play"):
            seen = play(generator, frames, 16)
        with phase(generation, "bonus"):
            add_bonus(curiosity, scale, seen)
        with phase(generation, "distill"):
            distill(curiosity, optimizer, seen)


if __name__ == "__main__":
    run()
