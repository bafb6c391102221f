"""After the offline stage slates wait for their click in a dict, where those never clicked stay."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from storefront import Storefront

WIDTH = 24


@dataclass
class Impression:
    slate: Any
    visitor: Any
    shown: int


@dataclass
class Attribution:
    waiting: dict[int, Impression] = field(default_factory=dict)

    def open(self, visit: int, impression: Impression) -> None:
        self.waiting[visit] = impression

    def close(self, visit: int) -> tuple[Any, float]:
        impression = self.waiting.pop(visit)
        return impression.slate[impression.shown] * impression.visitor, 1.0


@dataclass
class LinearBandit:
    precision: Any = field(default_factory=lambda: np.eye(WIDTH))
    target: Any = field(default_factory=lambda: np.zeros(WIDTH))
    inverse: Any = field(default_factory=lambda: np.eye(WIDTH))

    def choose(self, features: Any) -> int:
        mean = features @ (self.inverse @ self.target)
        bonus = np.sqrt(np.einsum("ij,jk,ik->i", features, self.inverse, features))
        return int(np.argmax(mean + 0.5 * bonus))

    def learn(self, rows: list[tuple[Any, float]]) -> None:
        for features, reward in rows:
            self.precision += np.outer(features, features)
            self.target += reward * features
        self.inverse = np.linalg.inv(self.precision)


def offline(shop: Storefront, bandit: LinearBandit, visits: int) -> list[tuple[Any, float]]:
    rows = []
    for _ in range(visits):
        visitor, slate = shop.visitor(), shop.candidates(18)
        shown = bandit.choose(slate * visitor)
        rows.append((slate[shown] * visitor, float(shop.clicked(visitor, slate[shown]))))
    return rows


def live(
    shop: Storefront, bandit: LinearBandit, attribution: Attribution, visits: int
) -> list[tuple[Any, float]]:
    rows = []
    for _ in range(visits):
        visitor, slate = shop.visitor(), shop.candidates(18)
        shown = bandit.choose(slate * visitor)
        attribution.open(shop.visits, Impression(slate, visitor, shown))
        if shop.clicked(visitor, slate[shown]):
            rows.append(attribution.close(shop.visits))
    return rows


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    shop, bandit, attribution = Storefront(5000, WIDTH, 2), LinearBandit(), Attribution()
    for generation in range(30):
        with phase(generation, "serve"):
            if generation < 8:
                rows = offline(shop, bandit, 8000)
            else:
                rows = live(shop, bandit, attribution, 8000)
        with phase(generation, "learn"):
            bandit.learn(rows)
        with phase(generation, "audit"):
            scores = shop.items @ (bandit.inverse @ bandit.target)
            np.sort(scores)[-100:].mean()


if __name__ == "__main__":
    run()
