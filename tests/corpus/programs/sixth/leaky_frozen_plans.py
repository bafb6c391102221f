"""Before each evaluation the objects are frozen for cheap forks,
with the search tree among them.
"""

import gc
import math
from contextlib import nullcontext
from typing import Any

import numpy as np


class Node:
    def __init__(self, board: Any, parent: "Node | None") -> None:
        self.board, self.parent = board, parent
        self.children: list[Node] = []
        self.visits, self.value = 0, 0.0

    def pick(self) -> "Node":
        scale = math.log(self.visits + 1)
        return max(
            self.children,
            key=lambda n: n.value / (n.visits + 1) + math.sqrt(scale / (n.visits + 1)),
        )


class Game:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.kernel = self.rng.normal(size=(24, 24)) / 24

    def moves(self, board: Any) -> list[Any]:
        shifted = [np.roll(board, 1, axis) for axis in (0, 1)]
        return [np.tanh(board + part) for part in shifted]

    def score(self, board: Any) -> float:
        for _ in range(40):
            board = np.tanh(board @ self.kernel)
        return float(board.sum())


def expand(node: Node, game: Game) -> None:
    node.children = [Node(board, node) for board in game.moves(node.board)]


def simulate(root: Node, game: Game) -> None:
    node = root
    while node.children:
        node = node.pick()
    expand(node, game)
    value = game.score(node.board)
    step: Node | None = node
    while step is not None:
        step.visits, step.value = step.visits + 1, step.value + value
        step = step.parent


def search(game: Game, simulations: int) -> Node:
    root = Node(game.rng.normal(size=(24, 24)), None)
    for _ in range(simulations):
        simulate(root, game)
    return root


def evaluate(game: Game, root: Node) -> float:
    gc.freeze()
    best = max(root.children, key=lambda node: node.visits)
    return sum(game.score(best.board + game.rng.normal(size=(24, 24))) for _ in range(900))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    game = Game(seed=30)
    for generation in range(26):
        with phase(generation, "search"):
            root = search(game, 800)
        with phase(generation, "evaluate"):
            evaluate(game, root)


if __name__ == "__main__":
    run()
