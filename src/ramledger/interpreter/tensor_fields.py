"""Gradients and graphs of torch's tensors, read as memory and not by torch's own functions.

torch changes these fields without the GIL, and `parameter.grad = None` frees a gradient while the
parameter still points to it (intrusive_ptr::reset in c10/util/intrusive_ptr.h). A getter in
another thread then follows a pointer to freed memory, and the program crashes. Read as memory, a
stale pointer is at worst a wrong value, and checks find it.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from ramledger.interpreter.array_storage import Storage, no_overrides, torch_tensor
from ramledger.interpreter.own_memory import WORD, OwnMemory, Reader
from ramledger.interpreter.tensor_layout import Fields, tensor_fields

_MOST_EDGES = 64
_MOST_TENSORS = 4
_MOST_NODES = 3_000  # in all graphs together: about 20 ms
_MOST_BYTES = 1 << 47


class Block(NamedTuple):
    """The memory of a gradient."""

    address: int
    bytes: int


def gradient_block(tensor: Any, memory: OwnMemory) -> Block | None:
    """The memory of a leaf's gradient; None if it has none, or if it changes just now."""
    fields = tensor_fields()
    if fields is None:
        return None
    try:
        read = memory.reader()
        (meta,) = read(_tensor_address(tensor) + fields.meta, 1)
        if not meta:
            return None
        (gradient,) = read(meta + fields.gradient, 1)
        tensor_words = read(gradient, fields.storage // WORD + 1)
        if tensor_words[0] != fields.tensor_kind:  # undefined, sparse or freed
            return None
        storage_words = read(tensor_words[-1], max(fields.data, fields.size) // WORD + 1)
        if storage_words[0] != fields.storage_kind:
            return None
        block = Block(storage_words[fields.data // WORD], storage_words[fields.size // WORD])
        is_still_there = read(meta + fields.gradient, 1) == (gradient,)
    except (OSError, IndexError):
        return None
    return block if is_still_there and block.address and 0 < block.bytes < _MOST_BYTES else None


def gradient_storage(tensor: Any, own: Storage, memory: OwnMemory) -> Storage | None:
    """The block of a leaf's gradient, which is of the same shape as the leaf's `own`."""
    block = gradient_block(tensor, memory)
    if block is None:
        return None
    is_part = own.reserved_bytes * 4 < block.bytes
    return replace(own, address=block.address, reserved_bytes=block.bytes, pinned_by_view=is_part)


def has_graph(tensor: Any) -> bool:
    """Whether a tensor has an autograd graph."""
    return _is_differentiable(tensor) and not _is_leaf(tensor)


def is_trained(tensor: Any) -> bool:
    """Whether a tensor is one that gradients are made for."""
    return _is_differentiable(tensor) and _is_leaf(tensor)


def _is_differentiable(tensor: Any) -> bool:
    return _says(torch_tensor().requires_grad, tensor)


def _is_leaf(tensor: Any) -> bool:
    return _says(torch_tensor().is_leaf, tensor)


def _says(getter: Any, tensor: Any) -> bool:
    """What torch says: only for getters that compare pointers with null and follow none."""
    try:
        with no_overrides(type(tensor)):
            return bool(getter.__get__(tensor))
    except Exception:
        return False


def graph_depth(tensors: Iterable[Any], most_nodes: int = _MOST_NODES) -> int:
    """The longest path back from one of a few tensors, as far as the limits allow.

    A state that is passed from step to step without detach() leaks this way: there are no more
    tensors than before and no container grows, only the graph behind the state gets deeper.
    """
    fields = tensor_fields()
    first = list(islice(tensors, _MOST_TENSORS))
    if fields is None or not first:
        return 0
    seen: set[int] = set()
    with suppress(OSError), OwnMemory() as memory:
        return max(_depth(one, fields, memory.reader(), seen, most_nodes) for one in first)
    return 0


def may_be_listed() -> bool:
    """Whether a tensor that the garbage collector lists may be used.

    Before its reference counts were joined with Python's (torch 2.10), a tensor that only C++ code
    holds is freed although somebody refers to its Python object.
    """
    fields = tensor_fields()
    return fields is not None and fields.is_kept_by_wrapper


def _depth(tensor: Any, fields: Fields, read: Reader, seen: set[int], most: int) -> int:
    deepest = 0
    with suppress(OSError):  # the program is freeing it
        meta = read(_tensor_address(tensor) + fields.meta, 1)[0]
        pending = [(read(meta + fields.node, 1)[0] if meta else 0, 1)]
        while pending and len(seen) < most:
            node, depth = pending.pop()
            if not node or node in seen:
                continue
            seen.add(node)
            deepest = max(deepest, depth)
            pending += [(following, depth + 1) for following in _edges(node, fields, read)]
    return deepest


def _edges(node: int, fields: Fields, read: Reader) -> Iterator[int]:
    begin, end = read(node + fields.edges, 2)
    count = (end - begin) // fields.edge_bytes
    if 0 < count <= _MOST_EDGES:
        words = fields.edge_bytes // WORD
        yield from read(begin, count * words)[::words]


def _tensor_address(tensor: Any) -> int:
    return int(torch_tensor()._cdata.__get__(tensor))
