"""Memory blocks of arrays: ndarrays, tensors, large bytes. One block, one address.

A view is reported as the array that owns its memory; a tensor as its storage. Nothing is
imported: numpy, torch, tensorflow and jax are looked up in `sys.modules`.
"""

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from ramledger.interpreter.attributes import instance_dict, is_class
from ramledger.interpreter.loaded_modules import loaded
from ramledger.interpreter.type_facts import (
    ancestors,
    basic_size,
    flags_of,
    namespace_of,
    once_a_type,
    package_and_name,
    short,
    type_name,
)

LARGE_BYTES = 64 * 1024  # below this a block is summed, not located page by page
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
# What malloc hands out beside the data of one array: dimensions, rounding; for a tensor its
# TensorImpl, StorageImpl and alignment. mallinfo2 says so, with numpy 2.4 and torch 2.13.
_BESIDE_ARRAY, _BESIDE_VIEW, _BESIDE_TENSOR = 48, 32, 352
_MOST_DTYPES = 256


@dataclass(frozen=True, slots=True)
class Storage:
    """One block of memory an object keeps alive. `address` is None if it is not known."""

    address: int | None
    reserved_bytes: int
    type: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    pinned_by_view: bool = False


def numpy_array() -> Any:
    """The class of numpy's arrays; None without numpy, or if a stub has its name."""
    return _made_in_c(loaded("numpy", "ndarray"))


def torch_tensor() -> Any:
    """The class in C below all tensors; None without torch, or if a stub has its name."""
    return _made_in_c(loaded("torch._C", "TensorBase") or loaded("torch._C", "_TensorBase"))


def _made_in_c(kind: Any) -> Any:
    return kind if is_class(kind) and not flags_of(kind) & _HEAP_TYPE else None


@once_a_type
def array_kind(kind: type) -> str:
    """'numpy', 'torch', 'tensorflow', 'jax', 'arrow', 'bytes' or '' for a type."""
    if kind is bytes or kind is bytearray:
        return "bytes"
    # with a C class on the right, issubclass runs no code of the program
    for framework, array in (("numpy", numpy_array()), ("torch", torch_tensor())):
        if array is not None and issubclass(kind, array):
            return framework
    for ancestor in ancestors(kind):
        other = _FRAMEWORK_BASES.get(package_and_name(ancestor))
        if other:
            return other
    return ""


_FRAMEWORK_BASES = {
    ("tensorflow", "_EagerTensorBase"): "tensorflow",
    ("tensorflow", "BaseResourceVariable"): "tensorflow variable",
    ("jaxlib", "ArrayImpl"): "jax",
    ("jax", "ArrayImpl"): "jax",
    ("pyarrow", "Buffer"): "arrow",
}


def storage_of(obj: Any) -> Storage | None:
    """The block behind an array-like object; None when it has none in this process's RAM."""
    reader = _READERS.get(array_kind(type(obj)))
    if reader is None:
        return None
    try:
        return reader(obj)
    except Exception:  # an array type with overridden properties must not break a snapshot
        return None


def bytes_beside_data(array: Any) -> int:
    """What malloc keeps for a small array but its data: of millions, more than the data itself."""
    framework = array_kind(type(array))
    if framework == "torch":
        return _BESIDE_TENSOR
    if framework != "numpy":
        return 0
    base = numpy_array().base.__get__(array)
    if base is None:
        return _BESIDE_ARRAY
    is_of_tensor = array_kind(type(base)) == "torch"  # tensor.numpy(): it keeps its tensor
    return _BESIDE_VIEW + (_BESIDE_TENSOR + basic_size(type(base)) if is_of_tensor else 0)


def untracked_array_types(tracked: Iterable[type]) -> dict[int, type]:
    """Array types whose instances gc may not track, by id; without torch's."""
    found = [bytes, bytearray, *(t for t in tracked if array_kind(t) not in ("", "torch"))]
    pending = [kind for kind in (numpy_array(),) if kind is not None]
    while pending:
        kind = pending.pop()
        found.append(kind)
        pending += type.__subclasses__(kind)
    jax = loaded("jaxlib._jax", "ArrayImpl") or loaded("jaxlib.xla_extension", "ArrayImpl")
    if is_class(jax):
        found.append(jax)
    return {id(kind): kind for kind in found}


def _numpy_storage(array: Any) -> Storage | None:
    ndarray = numpy_array()
    address, reserved = _numpy_block(array)
    return Storage(
        address=address,
        reserved_bytes=reserved,
        type=type_name(type(array)),
        dtype=_name_of_dtype(ndarray.dtype.__get__(array)),
        shape=_same_shape(ndarray.shape.__get__(array)),
        pinned_by_view=ndarray.nbytes.__get__(array) * 4 < reserved,
    )


def _numpy_block(array: Any) -> tuple[int, int]:
    """Address and bytes of the memory that an array keeps alive; for a view, its owner's."""
    ndarray = numpy_array()
    owner = array
    while issubclass(type(base := ndarray.base.__get__(owner)), ndarray):
        owner = base
    reserved = ndarray.nbytes.__get__(owner)
    address = ndarray.__array_interface__.__get__(owner)["data"][0]
    message = base.obj if type(base) is memoryview else base
    if type(message) is bytes or type(message) is bytearray:
        whole = _bytes_storage(message)  # np.frombuffer: the whole message stays alive
        address, reserved = whole.address or address, whole.reserved_bytes
    return address, reserved


def numpy_getters(ndarray: Any) -> tuple[Any, ...]:
    """Descriptors in C of what `described_storage` takes: bytes, base, address, shape, dtype."""
    names = ("nbytes", "base", "__array_interface__", "shape", "dtype")
    return tuple(namespace_of(ndarray)[name] for name in names)


def described_storage(
    kind: type, size: int, base: Any, interface: Any, shape: Any, dtype: Any
) -> Storage:
    """The storage of an array that is given by its facts; for a view, that of its owner."""
    address, reserved = interface["data"][0], size
    if base is not None:
        address, reserved = _block_of(base) or (address, reserved)
    return Storage(
        address=address,
        reserved_bytes=reserved,
        type=type_name(kind),
        dtype=_name_of_dtype(dtype),
        shape=_same_shape(shape),
        pinned_by_view=size * 4 < reserved,
    )


def _block_of(base: Any) -> tuple[int, int] | None:
    """Address and bytes of what the base of a view keeps alive; None if they are not known."""
    try:
        if array_kind(type(base)) == "numpy":
            return _numpy_block(base)
    except Exception:  # an array type with overridden properties must not break a snapshot
        return None
    owner = storage_of(base)
    return (owner.address, owner.reserved_bytes) if owner is not None and owner.address else None


# a buffer may have tens of thousands of equal arrays: their facts are stored once


@lru_cache(maxsize=256)
def _same_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape


_dtype_names: dict[str, str] = {}


def _name_of_dtype(dtype: Any) -> str:
    """'float32' of numpy's dtype. Structured dtypes have names of their own and are not cached."""
    if dtype.names is not None or len(_dtype_names) > _MOST_DTYPES:
        return short(str(dtype))
    if dtype.str not in _dtype_names:
        _dtype_names[dtype.str] = short(str(dtype))
    return _dtype_names[dtype.str]


def _torch_storage(tensor: Any) -> Storage | None:
    base, strided = torch_tensor(), loaded("torch", "strided")
    with no_overrides(type(tensor)):
        if base.device.__get__(tensor).type != "cpu" or base.layout.__get__(tensor) is not strided:
            return None
        storage = base.untyped_storage(tensor)
        reserved = storage.nbytes()
        return Storage(
            address=storage.data_ptr() or None,
            reserved_bytes=reserved,
            type=type_name(type(tensor)),
            dtype=sys.intern(str(base.dtype.__get__(tensor)).removeprefix("torch.")),
            shape=_same_shape(tuple(base.shape.__get__(tensor))),
            pinned_by_view=base.numel(tensor) * base.element_size(tensor) * 4 < reserved,
        )


def no_overrides(kind: type) -> Any:
    """A subclass of the user's may override functions of torch; torch's own classes do not."""
    if package_and_name(kind)[0] == "torch":
        return _NOTHING_TO_DO
    return loaded("torch._C", "DisableTorchFunctionSubclass")()


_NOTHING_TO_DO = nullcontext()


def _tensorflow_storage(tensor: Any) -> Storage | None:
    if "CPU" not in tensor.device:
        return None
    shape = tuple(int(n) for n in tensor.shape)
    reserved = int(tensor.dtype.size)
    for n in shape:
        reserved *= n
    return Storage(None, reserved, type_name(type(tensor)), tensor.dtype.name, shape)


def _variable_storage(variable: Any) -> Storage | None:
    """From its attributes alone: reading its value would run an operation."""
    fields = instance_dict(variable) or {}
    device = getattr(fields.get("_handle"), "device", "")
    if "GPU" in device or "TPU" in device:
        return None
    shape = tuple(int(n) for n in fields["_shape"])
    size = int(fields["_dtype"].size) * prod(shape)
    return Storage(None, size, type_name(type(variable)), fields["_dtype"].name, shape)


def _jax_storage(array: Any) -> Storage | None:
    if array.is_deleted() or next(iter(array.devices())).platform != "cpu":
        return None
    return Storage(
        address=array.unsafe_buffer_pointer(),
        reserved_bytes=array.nbytes,
        type=type_name(type(array)),
        dtype=str(array.dtype),
        shape=tuple(array.shape),
    )


def _arrow_storage(buffer: Any) -> Storage | None:
    if not buffer.is_cpu:
        return None
    size = buffer.size
    return Storage(buffer.address, size, type_name(type(buffer)), "bytes", (size,))


def _bytes_storage(obj: bytes | bytearray) -> Storage:
    size = sys.getsizeof(obj)
    # the data of a bytearray is apart from its header, at an address that Python cannot see
    address = id(obj) if type(obj) is bytes else None
    return Storage(address, size, type_name(type(obj)), "bytes", (len(obj),))


_READERS = {
    "numpy": _numpy_storage,
    "torch": _torch_storage,
    "tensorflow": _tensorflow_storage,
    "tensorflow variable": _variable_storage,
    "jax": _jax_storage,
    "arrow": _arrow_storage,
    "bytes": _bytes_storage,
}
