"""Actors in a pool remember every board they saw, and each is replaced after 25 games."""

from contextlib import nullcontext
from multiprocessing import get_context
from typing import Any

import numpy as np

memory: list[Any] = []


def play(job: tuple[Any, int]) -> tuple[float, Any]:
    weights, seed = job
    rng = np.random.default_rng(seed)
    board, score = rng.normal(size=(48, 48)), 0.0
    for _ in range(400):
        memory.append(board)
        board = np.tanh(board @ weights + 0.1 * rng.normal(size=board.shape))
        score += float(board[0, 0])
    novelty = min(float(np.abs(board - old).mean()) for old in memory[::4])
    return score + novelty, board.mean(axis=0)


def play_games(pool: Any, weights: Any, first: int) -> list[tuple[float, Any]]:
    return pool.map(play, [(weights, first + game) for game in range(10)], chunksize=1)


def update(weights: Any, results: list[tuple[float, Any]]) -> Any:
    scores = np.array([score for score, _ in results])
    ranks = scores.argsort().argsort() - 4.5
    step = sum(rank * np.outer(mean, mean) for rank, (_, mean) in zip(ranks, results, strict=True))
    return weights + 0.01 * step


def consolidate(weights: Any, rng: Any) -> float:
    replayed = rng.normal(size=(9000, 48))
    for _ in range(12):
        replayed = np.tanh(replayed @ weights)
    return float(replayed.std())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    rng = np.random.default_rng(37)
    weights = rng.normal(size=(48, 48)) / 7
    with get_context("spawn").Pool(2, maxtasksperchild=25) as pool:
        for generation in range(28):
            with phase(generation, "games"):
                results = play_games(pool, weights, 10 * generation)
            with phase(generation, "update"):
                weights = update(weights, results)
            with phase(generation, "consolidate"):
                consolidate(weights, rng)


if __name__ == "__main__":
    run()
