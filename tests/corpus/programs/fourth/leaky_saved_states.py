"""The lookahead saves the state of the emulator in memory of the C library and never frees it."""

import ctypes
from contextlib import nullcontext
from typing import Any

import numpy as np

LIBC = ctypes.CDLL(None)
LIBC.malloc.argtypes, LIBC.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
LIBC.free.argtypes = [ctypes.c_void_p]


class Emulator:
    """A scrolling screen of bytes with a player, an enemy and a ball."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.memory = rng.integers(0, 255, 24576, np.uint8)
        self.screen = self.memory[: 128 * 160].reshape(128, 160)

    def save(self) -> int:
        handle = LIBC.malloc(self.memory.nbytes)
        ctypes.memmove(handle, self.memory.ctypes.data, self.memory.nbytes)
        return int(handle)

    def load(self, handle: int) -> None:
        ctypes.memmove(self.memory.ctypes.data, handle, self.memory.nbytes)

    def act(self, action: int) -> float:
        counters = self.memory[-16:]
        counters += np.uint8(action)
        self.screen[:, :-2] = self.screen[:, 2:]
        row = int(counters[0]) % 120
        self.screen[row : row + 8, -2:] ^= np.uint8(1 + action)
        return float(self.screen[row : row + 8, :16].mean()) / 255


class Agent:
    def __init__(self, actions: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.actions = actions
        self.values = np.zeros((actions, 20 * 16))

    def features(self, emulator: Emulator) -> Any:
        return emulator.screen.reshape(16, 8, 20, 8).mean(axis=(1, 3)).ravel() / 255

    def look_ahead(self, emulator: Emulator, depth: int) -> Any:
        start = emulator.save()
        returns = np.zeros(self.actions)
        for action in range(self.actions):
            returns[action] = sum(emulator.act(action) for _ in range(depth))
            returns[action] += self.values[action] @ self.features(emulator)
            emulator.load(start)
        return returns

    def play(self, emulator: Emulator, steps: int) -> list[Any]:
        memory = []
        for _ in range(steps):
            seen, returns = self.features(emulator), self.look_ahead(emulator, 12)
            emulator.act(int(returns.argmax()))
            memory.append((seen, returns))
        return memory

    def learn(self, memory: list[Any]) -> None:
        for index in self.rng.integers(0, len(memory), 800):
            seen, returns = memory[index]
            self.values += 1e-4 * np.outer(returns / 12 - self.values @ seen, seen)


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    emulator, agent = Emulator(seed=6), Agent(actions=6, seed=6)
    for generation in range(27):
        with phase(generation, "play"):
            memory = agent.play(emulator, 220)
        with phase(generation, "learn"):
            agent.learn(memory)


if __name__ == "__main__":
    run()
