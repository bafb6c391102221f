"""Where torch keeps the fields of its tensors, measured on a few tensors of our own.

They are looked for by values that are known. So no release of torch is assumed; where a field is
not found, nothing is read.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from ramledger.interpreter.array_storage import torch_tensor
from ramledger.interpreter.loaded_modules import loaded, namespace
from ramledger.interpreter.own_memory import WORD, OwnMemory, Reader

_TENSOR_WORDS = 32  # TensorImpl has 26 in torch 2.13
_META_WORDS = 40
_NODE_WORDS = 64
_STORAGE_WORDS = 24
_BEHIND_HEADER = 16  # of a Python object


class Fields(NamedTuple):
    """Offsets in bytes; of tensors, their autograd's part, storages and nodes."""

    meta: int
    gradient: int
    node: int
    storage: int
    data: int
    size: int
    edges: int
    edge_bytes: int
    tensor_kind: int  # what a plain tensor begins with: the address of its class's table
    storage_kind: int
    is_kept_by_wrapper: bool  # a Python object's pointer to its tensor always counts


def tensor_fields() -> Fields | None:
    """Measured once; None without torch, while it is being imported, or if it is another."""
    module = sys.modules.get("torch")
    is_ready = not getattr(namespace(module).get("__spec__"), "_initializing", True)
    return _fields(id(module)) if is_ready and torch_tensor() is not None else None


@cache
def _fields(torch_id: int) -> Fields | None:
    try:
        with loaded("torch._C", "DisableTorchFunctionSubclass")(), OwnMemory() as memory:
            return _measured(memory.reader())
    except Exception:  # a torch that differs
        return None


def _measured(read: Reader) -> Fields:
    """Look for pointers whose values are known, in two sets of tensors: what both have counts."""
    torch: Any = namespace(sys.modules["torch"])
    found: list[set[tuple[int, ...]]] = []
    storages: list[set[tuple[int, ...]]] = []
    edges: set[tuple[int, int]] = set()
    kinds: set[tuple[int, int]] = set()
    is_kept = True
    # without the mode that a program may have set for its own tensors
    with torch["inference_mode"](False), torch["enable_grad"]():
        for length in (7, 13):
            leaf = torch["zeros"](length, dtype=torch["float32"], device="cpu", requires_grad=True)
            leaf.grad = torch["zeros"](length, dtype=torch["float32"], device="cpu")
            left, right = leaf * 2.0, leaf * 3.0
            both = left * right
            found.append(_in_tensor(leaf, left, read))
            storages.append(_in_storage(leaf, read))
            edges = _in_node(both, left, right, read)
            kinds.add((read(leaf._cdata, 1)[0], read(leaf.untyped_storage()._cdata, 1)[0]))
            is_kept &= read(id(leaf) + _BEHIND_HEADER, 1) == (leaf._cdata,)
    (meta, gradient, node) = min(found[0] & found[1])
    (storage, data, size) = min(storages[0] & storages[1])
    ((offset, edge_bytes),) = sorted(edges)[:1]
    ((tensor_kind, storage_kind),) = kinds
    return Fields(
        meta, gradient, node, storage, data, size, offset, edge_bytes,
        tensor_kind, storage_kind, is_kept,
    )  # fmt: skip


def _in_tensor(leaf: Any, result: Any, read: Reader) -> set[tuple[int, ...]]:
    """Offsets of the autograd's part in a tensor, and in it of the gradient and of the node."""
    gradient, node = leaf.grad._cdata, _node_address(result, read)
    found: set[tuple[int, ...]] = set()
    for meta, of_leaf in _pointers(read, leaf._cdata, _TENSOR_WORDS):
        of_result = read(result._cdata + meta, 1)[0]
        with suppress(OSError):
            leafs = _places(gradient, read(of_leaf, _META_WORDS))
            results = _places(node, read(of_result, _META_WORDS))
            found |= {(meta, *pair) for pair in product(leafs, results)}
    return found


def _in_storage(leaf: Any, read: Reader) -> set[tuple[int, ...]]:
    """Offsets of the storage in a tensor, and in it of the address and the number of bytes."""
    storage = leaf.untyped_storage()
    words = read(storage._cdata, _STORAGE_WORDS)
    return set(
        product(
            _places(storage._cdata, read(leaf._cdata, _TENSOR_WORDS)),
            _places(storage.data_ptr(), words),
            _places(storage.nbytes(), words),
        )
    )


def _in_node(result: Any, left: Any, right: Any, read: Reader) -> set[tuple[int, int]]:
    """Offset of a node's list of edges, and the bytes of an edge."""
    node = _node_address(result, read)
    wanted = _node_address(left, read), _node_address(right, read)
    found = set()
    for offset, begin in _pointers(read, node, _NODE_WORDS):
        with suppress(OSError):
            end = read(node + offset + WORD, 1)[0]
            edges = read(begin, 6)
            found |= {
                (offset, words * WORD)
                for words in (2, 3)
                if end - begin == 2 * words * WORD and (edges[0], edges[words]) == wanted
            }
    return found


def _node_address(tensor: Any, read: Reader) -> int:
    return read(id(tensor.grad_fn) + _BEHIND_HEADER, 1)[0]


def _pointers(read: Reader, address: int, count: int) -> Iterator[tuple[int, int]]:
    """Offsets and values of what may be a pointer."""
    for place, value in enumerate(read(address, count)):
        if 1 << 12 < value < 1 << 47 and value % WORD == 0:
            yield place * WORD, value


def _places(wanted: int, words: tuple[int, ...]) -> list[int]:
    return [place * WORD for place, value in enumerate(words) if value == wanted]
