"""Every position that was ever searched stays in the table of the search, long after its game."""

from contextlib import nullcontext
from typing import Any

import numpy as np

ROWS, COLUMNS = 6, 7


def drop(board: Any, column: int) -> Any:
    after = -board
    after[np.flatnonzero(board[:, column] == 0)[-1], column] = -1
    return after


class Node:
    __slots__ = ("priors", "totals", "visits")

    def __init__(self, priors: Any) -> None:
        self.priors = priors
        self.totals = np.zeros(COLUMNS)
        self.visits = np.zeros(COLUMNS)

    def select(self) -> int:
        bonus = self.priors * np.sqrt(self.visits.sum() + 1) / (1 + self.visits)
        return int(np.argmax(self.totals / (self.visits + 1) + 1.5 * bonus))


class Search:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: dict[bytes, Node] = {}
        self.weights = self.rng.normal(0, 0.1, ROWS * COLUMNS)

    def expand(self, key: bytes, board: Any) -> float:
        priors = self.rng.dirichlet(np.full(COLUMNS, 0.6)) * (board[0] == 0)
        self.nodes[key] = Node(priors)
        return float(np.tanh(board.ravel() @ self.weights))

    def simulate(self, board: Any) -> None:
        path = []
        while (node := self.nodes.get(key := board.tobytes())) is not None:
            column = node.select()
            if board[0, column]:
                return
            path.append((node, column))
            board = drop(board, column)
        value = self.expand(key, board)
        for node, column in reversed(path):
            value = -value
            node.totals[column] += value
            node.visits[column] += 1

    def choose(self, board: Any, simulations: int) -> int:
        for _ in range(simulations):
            self.simulate(board)
        visits = self.nodes[board.tobytes()].visits * (board[0] == 0) + 1e-9
        return int(self.rng.choice(COLUMNS, p=visits / visits.sum()))


def play_game(search: Search, simulations: int = 60) -> list[Any]:
    board = np.zeros((ROWS, COLUMNS), np.int8)
    positions = []
    for _ in range(24):
        board = drop(board, search.choose(board, simulations))
        positions.append(board)
    return positions


def fit(search: Search, games: list[list[Any]]) -> None:
    for positions in games:
        outcome = float(np.sign(positions[-1].sum() + 0.5))
        for turn, board in enumerate(positions):
            error = outcome * (-1) ** turn - np.tanh(board.ravel() @ search.weights)
            search.weights += 0.01 * error * board.ravel()


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    search = Search(seed=3)
    for generation in range(28):
        with phase(generation, "self-play"):
            games = [play_game(search) for _ in range(5)]
        with phase(generation, "fit"):
            fit(search, games)


if __name__ == "__main__":
    run()
