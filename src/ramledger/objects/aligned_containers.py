"""Long containers that hold the same objects: `states[i + 1] is next_states[i]` for nearly all i.

Their elements are booked once, to the container that was met first.
"""

from collections import deque
from typing import Any

_PROBES = 16
_OFFSETS = (0, 1, -1, 2, -2)
_NEARLY_ALL = 0.9
_MOST_KEPT = 200
_TRIVIAL = frozenset({bool, int, float, complex, str, bytes, type(None)})  # equal, not shared
_KINDS = (list, tuple, deque)


class AlignedContainers:
    """The containers of one walk; it refers to them only as long as the walk lasts."""

    def __init__(self) -> None:
        # two lists, not pairs: a snapshot counts tuples, and ours are not the program's
        self._met: list[Any] = []
        self._lengths: list[int] = []

    def repeats(self, container: Any, length: int) -> bool:
        """Whether an earlier one of about this length holds the same elements in the same order."""
        if type(container) not in _KINDS:
            return False
        found = any(
            abs(length - other_length) <= 2 and _is_same(container, length, self._met[number])
            for number, other_length in enumerate(self._lengths)
        )
        if len(self._met) < _MOST_KEPT and not found:
            self._met.append(container)
            self._lengths.append(length)
        return found

    def clear(self) -> None:
        self._met.clear()
        self._lengths.clear()


def _is_same(container: Any, length: int, other: Any) -> bool:
    same = probed = 0
    for number in range(_PROBES):
        at = number * (length - 1) // (_PROBES - 1)
        element = _element(container, at)
        if type(element) in _TRIVIAL:
            continue
        probed += 1
        same += any(_element(other, at + off) is element for off in _OFFSETS if at + off >= 0)
    return probed >= _PROBES // 2 and same >= _NEARLY_ALL * probed


def _element(container: Any, at: int) -> Any:
    """None beyond the end: other threads may shorten it meanwhile."""
    try:
        return container[at]
    except IndexError:
        return None
