"""An array of pages that nothing has touched, whatever the tests before it freed.

`np.zeros` asks malloc, which may serve a block that another test freed, and then clears it: all
its pages are resident.
"""

import mmap
from typing import Any

import numpy as np


def untouched_array(length: int) -> Any:
    """`length` bytes, none of them resident yet."""
    return np.frombuffer(
        mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8
    )
