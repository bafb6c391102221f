"""A C library allocates a scene at each reset and has no call to free it."""

import ctypes
import time
from contextlib import nullcontext
from typing import Any

LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p
LIBC.malloc.argtypes = [ctypes.c_size_t]
LIBC.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]


def reset_scene(size: int) -> None:
    for _ in range(size // 65_536):
        LIBC.memset(LIBC.malloc(65_536), 1, 65_536)


def simulate() -> None:
    for _ in range(7):
        reset_scene(1 << 20)
        time.sleep(0.02)


def think() -> int:
    return sum(i * 3 % 5 for i in range(500_000))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for generation in range(20):
        with phase(generation, "simulate"):
            simulate()
        with phase(generation, "think"):
            think()


if __name__ == "__main__":
    run()
