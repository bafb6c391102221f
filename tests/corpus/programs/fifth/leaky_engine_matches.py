"""Each generation meets a new engine process,
and engines of past matches are never told to quit.
"""

import random
import subprocess
import sys
from contextlib import nullcontext
from typing import Any

ENGINE = """
import random, sys
seed, strength = int(sys.argv[1]), float(sys.argv[2])
chooser = random.Random(seed)
nimbers = [0] * 300_000
for heap in range(1, len(nimbers)):
    nimbers[heap] = (heap % 4) * 1000 + heap
for line in sys.stdin:
    heaps = [int(word) for word in line.split()]
    total = 0
    for heap in heaps:
        total ^= nimbers[heap] // 1000
    moves = [(i, t) for i, heap in enumerate(heaps) for t in (1, 2, 3) if t <= heap]
    best = [m for m in moves if (heaps[m[0]] - m[1]) % 4 == heaps[m[0]] % 4 ^ total]
    pick = best if best and chooser.random() < strength else moves
    print(*chooser.choice(pick), flush=True)
"""


class Learner:
    """Tabular values of heap positions for a take-away game."""

    def __init__(self) -> None:
        self.random = random.Random(7)
        self.values: dict[tuple[int, ...], float] = {}

    def choose(self, heaps: list[int]) -> tuple[int, int]:
        moves = [(i, take) for i, heap in enumerate(heaps) for take in (1, 2, 3) if take <= heap]
        if self.random.random() < 0.1:
            return self.random.choice(moves)
        return min(moves, key=lambda move: self.values.get(after(heaps, move), 0.0))


def after(heaps: list[int], move: tuple[int, int]) -> tuple[int, ...]:
    return tuple(sorted(h - move[1] if i == move[0] else h for i, h in enumerate(heaps)))


def start_engine(generation: int) -> Any:
    command = [sys.executable, "-I", "-c", ENGINE, str(generation), str(min(generation / 30, 0.9))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(engine: Any, heaps: list[int]) -> tuple[int, int]:
    engine.stdin.write(" ".join(map(str, heaps)) + "\n")
    engine.stdin.flush()
    place, take = engine.stdout.readline().split()
    return int(place), int(take)


def game(learner: Learner, engine: Any) -> tuple[list[tuple[int, ...]], float]:
    heaps, visited, own_turn = [7, 9, 6, 8], [], True
    while any(heaps):
        place, take = learner.choose(heaps) if own_turn else ask(engine, heaps)
        heaps[place] -= take
        visited.append(tuple(sorted(heaps)))
        own_turn = not own_turn
    return visited, -1.0 if own_turn else 1.0


def match(learner: Learner, engines: list[Any], generation: int) -> list[Any]:
    engines.append(start_engine(generation))
    return [game(learner, engines[-1]) for _ in range(850)]


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    learner, engines = Learner(), []
    for generation in range(24):
        with phase(generation, "match"):
            played = match(learner, engines, generation)
        with phase(generation, "learn"):
            for visited, result in played:
                for step, heaps in enumerate(reversed(visited)):
                    old = learner.values.get(heaps, 0.0)
                    target = -result * (-1.0 if step % 2 else 1.0)
                    learner.values[heaps] = old + 0.1 * (target - old)
    for engine in engines:
        engine.communicate()


if __name__ == "__main__":
    run()
