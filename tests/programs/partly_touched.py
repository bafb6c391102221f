"""Makes one array of a kind, touches a part of it and holds: the cases of test_half_filled.

Arguments: the kind, how much of it is touched (0 to 1), its size in bytes.
"""

from holding import hold, open_ledger

ledger = open_ledger()

import sys  # noqa: E402
import tempfile  # noqa: E402
from multiprocessing import shared_memory  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

Array = np.ndarray[Any, Any]


class Holder:
    """Something that can be claimed."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def zeros(size: int, part: int) -> Array:
    array = np.zeros(size, np.uint8)
    array[:part] = 1
    return array


def scattered(size: int, part: int) -> Array:
    """Rows here and there, as hindsight or a hash would write them."""
    array = np.zeros((size // 8192, 8192), np.uint8)
    array[np.random.default_rng(0).permutation(len(array))[: part // 8192]] = 1
    return array


def only_read(size: int, part: int) -> Array:
    """Reading shows the kernel's zero page, which is no RAM."""
    array = np.zeros(size, np.uint8)
    array[:part].sum()
    return array


def view(size: int, part: int) -> Array:
    """All that is held is a view of a few bytes: it keeps the whole block."""
    return zeros(size, part)[: size // 2][100:200]


def held_bytes(size: int, part: int) -> bytes:
    return b"\1" * size


def tensor(size: int, part: int) -> Any:
    import torch

    found = torch.empty(size, dtype=torch.uint8)
    found[:part] = 1
    return found


def tensor_slice(size: int, part: int) -> Any:
    return tensor(size, part)[size // 4 : size // 3]


def mapped_file(size: int, part: int) -> Array:
    file = tempfile.NamedTemporaryFile(prefix="frames-")  # noqa: SIM115
    file.truncate(size)
    array = np.memmap(file.name, np.uint8, "r", shape=(size,))
    array[:part:4096].sum()
    return array


def shared(size: int, part: int) -> Array:
    global segment
    segment = shared_memory.SharedMemory(create=True, size=size)
    array: Array = np.ndarray(size, np.uint8, segment.buf)
    array[:part] = 1
    return array


segment: shared_memory.SharedMemory | None = None


def address_of(held: Any) -> int:
    """Where the block begins that `held` keeps, which may be a view of it."""
    if isinstance(held, bytes):
        return id(held)
    if hasattr(held, "untyped_storage"):
        return int(held.untyped_storage().data_ptr())
    while isinstance(held.base, np.ndarray):
        held = held.base
    return int(held.__array_interface__["data"][0])


def main() -> None:
    kind, fraction, size = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    held = globals()[kind](size, int(size * fraction))
    # bytes take no weak reference, so that only something that holds them can be claimed
    holder = Holder(held) if isinstance(held, bytes) else held
    if ledger is not None:
        ledger.claim("held", holder)
    hold({"arrays": {"held": (address_of(held), size)}}, ledger)
    if segment is not None:
        del held
        segment.unlink()


main()
