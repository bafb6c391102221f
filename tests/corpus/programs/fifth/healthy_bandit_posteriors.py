"""A shop with many products makes the posterior of a product when it is first shown to
a visitor.
"""

from collections import defaultdict
from contextlib import nullcontext
from typing import Any

import numpy as np

WIDTH = 96


class Posterior:
    """Gaussian belief about how the traits of a visitor turn into a purchase."""

    def __init__(self) -> None:
        self.covariance = np.eye(WIDTH)
        self.mean = np.zeros(WIDTH)

    def sample(self, traits: Any, rng: Any) -> float:
        spread = float(traits @ self.covariance @ traits)
        return float(self.mean @ traits) + spread**0.5 * float(rng.standard_normal())

    def update(self, traits: Any, bought: float) -> None:
        gain = self.covariance @ traits
        scale = 1.0 + float(traits @ gain)
        self.mean += gain * (bought - float(self.mean @ traits)) / scale
        self.covariance -= np.outer(gain, gain) / scale


class Shop:
    def __init__(self, products: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tastes = self.rng.standard_normal((products, WIDTH)) / WIDTH**0.5

    def visitors(self, count: int) -> Any:
        for _ in range(count):
            traits = self.rng.standard_normal(WIDTH)
            yield traits, self.rng.choice(len(self.tastes), 12, replace=False)

    def buys(self, traits: Any, product: int) -> float:
        return float(self.tastes[product] @ traits > 0.8)


def serve(shop: Shop, beliefs: dict[int, Posterior], visits: int) -> list[tuple[int, Any, float]]:
    sales = []
    for traits, offers in shop.visitors(visits):
        draws = {product: beliefs[product].sample(traits, shop.rng) for product in offers.tolist()}
        best = max(draws, key=draws.__getitem__)
        sales.append((best, traits, shop.buys(traits, best)))
    return sales


def update(beliefs: dict[int, Posterior], sales: list[tuple[int, Any, float]]) -> None:
    for product, traits, bought in sales:
        beliefs[product].update(traits, bought)


def audit(shop: Shop, beliefs: dict[int, Posterior]) -> float:
    known = sorted(beliefs)
    means = np.stack([beliefs[product].mean for product in known])
    return float(np.abs(means - shop.tastes[known]).mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    shop = Shop(1200, 4)
    beliefs: dict[int, Posterior] = defaultdict(Posterior)
    for generation in range(30):
        visits = 60 if generation < 10 else 2400
        with phase(generation, "serve"):
            sales = serve(shop, beliefs, visits)
        with phase(generation, "update"):
            update(beliefs, sales)
        with phase(generation, "audit"):
            audit(shop, beliefs)


if __name__ == "__main__":
    run()
