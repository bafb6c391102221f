"""A renderer maps a texture for every frame batch and never unmaps it."""

import ctypes
import time
from contextlib import nullcontext
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
]  # fmt: skip
LIBC.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
PRIVATE_ANONYMOUS, READ_WRITE = 0x22, 0x3


def map_texture(size: int) -> None:
    address = LIBC.mmap(None, size, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0)
    LIBC.memset(address, 7, size)


def render() -> None:
    for _ in range(3):
        map_texture(2 << 20)
        time.sleep(0.05)


def advance() -> int:
    state = 1
    for i in range(400_000):
        state = (state * 3 + i) % 10_007
    return state


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    for frame_batch in range(18):
        with phase(frame_batch, "advance"):
            advance()
        with phase(frame_batch, "render"):
            render()


if __name__ == "__main__":
    run()
