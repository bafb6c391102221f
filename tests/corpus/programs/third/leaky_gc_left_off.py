"""Tree search pauses the collector, and returns early without resuming it from generation 9 on."""

import gc
from contextlib import nullcontext
from typing import Any

import numpy as np


class Node:
    def __init__(self, parent: "Node | None", priors: Any) -> None:
        self.parent, self.priors = parent, priors
        self.children: list[Node] = []
        self.visits, self.value = 0, 0.0

    def best_child(self) -> "Node":
        return max(self.children, key=lambda c: c.value / (1 + c.visits) + 1.4 / (1 + c.visits))


class TreeSearch:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.skill = 0.0

    def expand(self, node: Node) -> None:
        for _ in range(8):
            node.children.append(Node(node, self.rng.dirichlet(np.full(380, 0.3))))

    def simulate(self, root: Node) -> None:
        node = root
        while node.children:
            node = node.best_child()
        self.expand(node)
        value = float(node.priors[:20].sum()) + self.skill
        while node is not None:
            node.visits += 1
            node.value += value
            node = node.parent  # type: ignore[assignment]

    def search(self, simulations: int) -> int:
        root = Node(None, np.full(380, 1 / 380))
        gc.disable()
        for _ in range(simulations):
            self.simulate(root)
        if self.skill >= 0.9:  # confident: no need for the statistics below
            return int(np.argmax([child.visits for child in root.children]))
        counts = np.array([child.visits for child in root.children], float)
        gc.enable()
        del root
        gc.collect()
        return int(self.rng.choice(len(counts), p=counts / counts.sum()))

    def learn(self) -> None:
        samples = self.rng.standard_normal((600, 120))
        np.linalg.svd(samples, full_matrices=False)
        self.skill += 0.1001


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    searcher = TreeSearch(4)
    for move in range(26):
        with phase(move, "search"):
            searcher.search(260)
        with phase(move, "learn"):
            searcher.learn()


if __name__ == "__main__":
    run()
