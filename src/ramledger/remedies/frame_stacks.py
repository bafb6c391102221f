"""Whether images are stacks of frames, seen from how one observation follows another."""

from typing import Any

_MOST_FRAMES = 16
_LEAST_SIDE = 16  # pixels: smaller things are no images
_LOOKED_AT = 64  # steps, at most
_ENOUGH_MOVES = 8  # of each environment: a picture that stands still is no evidence
_MOST = 0.75  # of the moves continue a stack; where an episode begins, one need not

UNKNOWN = 0


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


class StackSearch:
    """The first steps decide: `stack` is UNKNOWN until then, and 1 for what is no stack."""

    def __init__(self, shape: Any) -> None:
        self._votes = dict.fromkeys(possible_stacks(shape), 0)
        self._steps = self._moves = 0
        self.stack = UNKNOWN if self._votes else 1

    def see(self, before: Any, after: Any) -> None:
        """One step of every environment: the image before it, and the one after."""
        moves = (before != after).any(axis=tuple(range(1, before.ndim)))
        self._steps += 1
        self._moves += int(moves.sum())
        for stack in self._votes:
            self._votes[stack] += int((continues(before, after, stack) & moves).sum())
        if self._moves >= _ENOUGH_MOVES * len(before):
            sure = [n for n, votes in self._votes.items() if votes >= _MOST * self._moves]
            self.stack = max(sure, default=1)
        elif self._steps >= _LOOKED_AT:
            self.stack = 1
