"""Images made small: gray, averaged over blocks, the latest few stacked so that motion is seen."""

from collections import deque
from typing import Any

import gymnasium
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

STACK = 4
MOST_ROWS = 32  # of a small frame, and columns


def is_image(space: Any) -> bool:
    """Rows, columns and, for color, three channels of bytes."""
    shape: tuple[int, ...] = tuple(space.shape or ())
    return space.dtype == np.uint8 and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)))


class SmallFrames(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Observations `[STACK, rows, columns]` of bytes, at most 32 × 32."""

    def __init__(self, env: "gymnasium.Env[Any, Any]") -> None:
        super().__init__(env)
        rows, columns = (env.observation_space.shape or (1, 1))[:2]
        self._block = -(-max(rows, columns) // MOST_ROWS)
        self._size = (rows // self._block, columns // self._block)
        self._frames: deque[Array] = deque(maxlen=STACK)
        self.observation_space = gymnasium.spaces.Box(0, 255, (STACK, *self._size), np.uint8)

    def reset(self, **options: Any) -> tuple[Array, dict[str, Any]]:
        seen, info = self.env.reset(**options)
        self._frames.extend([self._small(seen)] * STACK)
        return np.stack(self._frames), info

    def step(self, action: Any) -> tuple[Array, Any, bool, bool, dict[str, Any]]:
        seen, *rest = self.env.step(action)
        self._frames.append(self._small(seen))
        return np.stack(self._frames), *rest  # type: ignore[return-value]

    def _small(self, seen: Array) -> Array:
        gray = seen if seen.ndim == 2 else seen.mean(axis=2)
        rows, columns = self._size
        block = self._block
        cut = gray[: rows * block, : columns * block].reshape(rows, block, columns, block)
        found: Array = cut.mean(axis=(1, 3)).astype(np.uint8)
        return found
