"""The random numbers of a program are its own: what we import or make in it draws none of them."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def random_numbers_kept() -> Iterator[None]:
    """Global generators of Python, numpy and torch go on afterwards where they were before."""
    numpy: Any = sys.modules.get("numpy")
    torch: Any = sys.modules.get("torch")
    own = random.getstate()
    arrays = numpy.random.get_state() if numpy is not None else None
    tensors = torch.get_rng_state() if torch is not None else None
    try:
        yield
    finally:
        random.setstate(own)
        if arrays is not None:
            numpy.random.set_state(arrays)
        if tensors is not None:
            torch.set_rng_state(tensors)
