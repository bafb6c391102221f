"""The bytes of one array or tensor, read by address: no view of it is made, nothing can crash."""

from dataclasses import dataclass
from math import prod
from typing import Any

from ramledger.interpreter.array_storage import array_kind, no_overrides, numpy_array, torch_tensor
from ramledger.interpreter.own_memory import OwnMemory

MOST_BYTES = 4 << 20
_PIECE = 4096


@dataclass(frozen=True, slots=True)
class ArrayBytes:
    """Where the values of an array without gaps are. Valid while somebody holds the array."""

    address: int
    size_bytes: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def item_bytes(self) -> int:
        return self.size_bytes // max(1, prod(self.shape))

    def is_like(self, other: "ArrayBytes") -> bool:
        return self.shape == other.shape and self.dtype == other.dtype

    def read(self, memory: OwnMemory) -> bytes:
        """All of it; of a very large one, as much as one may read."""
        return memory.read(self.address, min(self.size_bytes, MOST_BYTES))

    def fingerprint(self, memory: OwnMemory) -> tuple[bytes, ...]:
        """Its beginning, middle and end: arrays of a training that share them are equal."""
        size = self.size_bytes
        if size <= 3 * _PIECE:
            return (memory.read(self.address, size),)
        starts = (0, (size - _PIECE) // 2, size - _PIECE)
        return tuple(memory.read(self.address + start, _PIECE) for start in starts)


def array_bytes(obj: Any) -> ArrayBytes | None:
    """Of a numpy array or a tensor in RAM; None for others, for gaps between values, and for
    arrays of objects.
    """
    try:
        framework = array_kind(type(obj))
        if framework == "numpy":
            return _of_numpy(obj)
        return _of_torch(obj) if framework == "torch" else None
    except Exception:  # an array type with overridden properties must not break a snapshot
        return None


def _of_numpy(array: Any) -> ArrayBytes | None:
    ndarray = numpy_array()
    dtype = ndarray.dtype.__get__(array)
    if dtype.hasobject or dtype.names is not None or not ndarray.flags.__get__(array).c_contiguous:
        return None
    return ArrayBytes(
        ndarray.__array_interface__.__get__(array)["data"][0],
        ndarray.nbytes.__get__(array),
        tuple(ndarray.shape.__get__(array)),
        str(dtype.name),
    )


def _of_torch(tensor: Any) -> ArrayBytes | None:
    base = torch_tensor()
    with no_overrides(type(tensor)):
        if base.device.__get__(tensor).type != "cpu" or not base.is_contiguous(tensor):
            return None
        return ArrayBytes(
            base.data_ptr(tensor),
            base.numel(tensor) * base.element_size(tensor),
            tuple(base.shape.__get__(tensor)),
            str(base.dtype.__get__(tensor)).removeprefix("torch."),
        )
