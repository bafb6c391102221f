"""The depth of the autograd graphs of tensors.

A state that is passed from step to step without detach() leaks this way: there are no more tensors
than before and no container grows, only the graph behind the state gets deeper.
"""

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Any

_MAX_TENSORS = 4
_MAX_NODES = 6_000  # in all graphs together: about 10 ms


def graph_depth(tensors: Iterable[Any]) -> int:
    """The longest path back from one of these tensors, as far as the limits allow."""
    seen: dict[int, Any] = {}  # by id; held, so that no other node can get the address
    return max((_depth(tensor, seen) for tensor in islice(tensors, _MAX_TENSORS)), default=0)


def _depth(tensor: Any, seen: dict[int, Any]) -> int:
    deepest = 0
    with suppress(Exception):  # another thread may be freeing it
        pending: list[tuple[Any, int]] = [(tensor.grad_fn, 1)]
        while pending and len(seen) < _MAX_NODES:
            node, depth = pending.pop()
            if node is None or id(node) in seen:
                continue
            seen[id(node)] = node
            deepest = max(deepest, depth)
            pending += [(following, depth + 1) for following, _ in node.next_functions]
    return deepest
