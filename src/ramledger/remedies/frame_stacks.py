"""Whether images are stacks of frames, seen from how one observation follows another."""

from typing import Any

import numpy as np

_MOST_FRAMES = 16
_LEAST_SIDE = 16  # pixels: smaller things are no images


def possible_stacks(shape: Any) -> list[int]:
    """Into how many frames the first axis of an image can be parted."""
    if not isinstance(shape, tuple) or len(shape) != 3 or min(shape[1:]) < _LEAST_SIDE:
        return []
    return [n for n in range(2, min(shape[0], _MOST_FRAMES) + 1) if shape[0] % n == 0]


def continues(before: Any, after: Any, stack: int) -> Any:
    """For each environment: whether `after` begins with all but the first frame of `before`."""
    new = before.shape[1] // stack
    same = before[:, new:] == after[:, :-new]
    return same.all(axis=tuple(range(1, same.ndim)))


def moved(before: Any, after: Any) -> bool:
    """Whether anything changed: a picture that stands still is no evidence."""
    return bool(before.size) and not np.array_equal(before, after)
