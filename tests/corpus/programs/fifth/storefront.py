"""A simulated shop: visitors with hidden tastes look at slates of items and sometimes click."""

from typing import Any

import numpy as np


class Storefront:
    def __init__(self, items: int, width: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.items = self.rng.standard_normal((items, width)).astype(np.float32)
        self.visits = 0

    def visitor(self) -> Any:
        self.visits += 1
        return self.rng.standard_normal(self.items.shape[1]).astype(np.float32)

    def candidates(self, count: int) -> Any:
        return self.items[self.rng.integers(0, len(self.items), count)]

    def clicked(self, visitor: Any, item: Any) -> bool:
        chance = 1.0 / (1.0 + np.exp(4.0 - 0.4 * float(visitor @ item)))
        return bool(self.rng.random() < chance)
