"""Self-play on a four-in-a-row board keeps every searched position in a table for all games."""

import random
from collections import namedtuple
from contextlib import nullcontext
from typing import Any

HEIGHT = 7
BOTTOM = sum(1 << (column * HEIGHT) for column in range(7))
FULL = BOTTOM * 63
ORDERED = [63 << (column * HEIGHT) for column in (3, 2, 4, 1, 5, 0, 6)]
Entry = namedtuple("Entry", ["value", "depth", "move"])


def wins(stones: int) -> bool:
    pairs = [(stones & (stones >> shift), shift) for shift in (1, 6, 7, 8)]
    return any(found & (found >> (2 * shift)) for found, shift in pairs)


def moves(mask: int) -> list[int]:
    landing = (mask + BOTTOM) & FULL
    return [bit for column in ORDERED if (bit := landing & column)]


class Player:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.table: dict[tuple[int, int], Entry] = {}
        self.weights = {1 << square: 0.0 for square in range(0, 49, 5)}

    def estimate(self, own: int, mask: int) -> float:
        total = 0.0
        for square, weight in self.weights.items():
            if mask & square:
                total += weight if own & square else -weight
        return total

    def negamax(self, own: int, mask: int, depth: int, alpha: float, beta: float) -> float:
        options = moves(mask)
        if depth == 0 or not options or wins(own ^ mask):
            return -1.0 if wins(own ^ mask) else self.estimate(own, mask)
        known = self.table.get((own, mask))
        if known is not None and known.depth >= depth:
            return known.value
        best, chosen = -2.0, options[0]
        for bit in options:
            value = -self.negamax(own ^ mask, mask | bit, depth - 1, -beta, -alpha)
            if value > best:
                best, chosen = value, bit
            alpha = max(alpha, value)
            if alpha >= beta:
                break
        self.table[own, mask] = Entry(best, depth, chosen)
        return best

    def choose(self, own: int, mask: int) -> int:
        self.negamax(own, mask, 5, -2.0, 2.0)
        if self.random.random() < 0.25 or (own, mask) not in self.table:
            return self.random.choice(moves(mask))
        return self.table[own, mask].move


def play_game(player: Player) -> list[int]:
    own = mask = 0
    record = []
    for _ in range(4):
        own, mask = own ^ mask, mask | player.random.choice(moves(mask))
    while moves(mask) and not wins(own ^ mask):
        bit = player.choose(own, mask)
        own, mask = own ^ mask, mask | bit
        record.append(bit)
    return record


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    player = Player(8)
    for generation in range(26):
        with phase(generation, "play"):
            records = [play_game(player) for _ in range(6)]
        with phase(generation, "learn"):
            for record in records:
                for step, bit in enumerate(reversed(record)):
                    if bit in player.weights:
                        player.weights[bit] += 0.01 * (-0.9) ** step


if __name__ == "__main__":
    run()
