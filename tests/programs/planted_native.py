"""Memory that nobody owns: malloc blocks, an mmap, and Python objects that no name leads to."""

from holding import hold, open_ledger

ledger = open_ledger()

import ctypes  # noqa: E402
import sys  # noqa: E402

import torch  # noqa: E402

BLOCKS, BLOCK_BYTES = 200, 300_000
MAPPED_BYTES = 40 << 20
STRINGS, STRING_LENGTH = 100_000, 200
_READ_WRITE, _PRIVATE_ANONYMOUS = 3, 0x22


def plant() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = libc.mmap.restype = ctypes.c_void_p
    for _ in range(BLOCKS):
        ctypes.memset(libc.malloc(ctypes.c_size_t(BLOCK_BYTES)), 1, BLOCK_BYTES)
    address = libc.mmap(None, ctypes.c_size_t(MAPPED_BYTES), _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
    ctypes.memset(address, 1, MAPPED_BYTES)
    for i in range(STRINGS):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object("x" * STRING_LENGTH + str(i)))


def main() -> None:
    torch.set_num_threads(1)
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    plant()
    truth = {
        "malloc_bytes": BLOCKS * BLOCK_BYTES,
        "mapped_bytes": MAPPED_BYTES,
        "object_bytes": STRINGS * (sys.getsizeof("x" * (STRING_LENGTH + 5)) + 15 & ~15),
    }
    hold(truth, ledger)


main()
