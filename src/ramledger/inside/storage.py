"""Memory blocks behind Python objects: ndarrays, tensors, large bytes. One block, one address.

A view is reported as the array that owns its memory; a tensor as its storage. Nothing is
imported: numpy, torch, tensorflow and jax are looked up in `sys.modules`.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from ramledger.inside.attributes import instance_dict
from ramledger.inside.typenames import once_a_type, package_and_name, type_name

LARGE_BYTES = 64 * 1024  # below this a block is summed, not located page by page


@dataclass(frozen=True, slots=True)
class Storage:
    """One block of memory an object keeps alive. `address` is None where it can't be told."""

    address: int | None
    reserved_bytes: int
    type: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    pinned_by_view: bool = False


@once_a_type
def array_kind(kind: type) -> str:
    """'numpy', 'torch', 'tensorflow', 'jax', 'bytes' or '' for a type; decided once a type."""
    if kind in (bytes, bytearray):
        return "bytes"
    for ancestor in kind.__mro__:
        framework = _FRAMEWORK_BASES.get(package_and_name(ancestor))
        if framework:
            return framework
    return ""


_FRAMEWORK_BASES = {
    ("numpy", "ndarray"): "numpy",
    ("torch", "Tensor"): "torch",
    ("tensorflow", "_EagerTensorBase"): "tensorflow",
    ("tensorflow", "BaseResourceVariable"): "tensorflow variable",
    ("jaxlib", "ArrayImpl"): "jax",
    ("jax", "ArrayImpl"): "jax",
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


def has_graph(tensor: Any) -> bool:
    """Whether a tensor still carries the graph that made it."""
    try:
        return tensor.grad_fn is not None
    except Exception:
        return False


def untracked_array_types(tracked: Iterable[type]) -> set[type]:
    """Array types whose instances a garbage-collector census may miss, torch tensors excepted."""
    found = {bytes, bytearray} | {t for t in tracked if array_kind(t) not in ("", "torch")}
    numpy = sys.modules.get("numpy")
    pending = [numpy.ndarray] if numpy is not None else []
    while pending:
        kind = pending.pop()
        found.add(kind)
        pending += type.__subclasses__(kind)
    jaxlib = sys.modules.get("jaxlib._jax") or sys.modules.get("jaxlib.xla_extension")
    if jaxlib is not None and hasattr(jaxlib, "ArrayImpl"):
        found.add(jaxlib.ArrayImpl)
    return found


def _numpy_storage(array: Any) -> Storage | None:
    ndarray = sys.modules["numpy"].ndarray
    owner = array
    while issubclass(type(base := ndarray.base.__get__(owner)), ndarray):
        owner = base
    reserved = ndarray.nbytes.__get__(owner)
    address = ndarray.__array_interface__.__get__(owner)["data"][0]
    message = base.obj if type(base) is memoryview else base
    if isinstance(message, bytes | bytearray):  # np.frombuffer: the whole message stays alive
        whole = _bytes_storage(message)
        address, reserved = whole.address or address, whole.reserved_bytes
    return Storage(
        address=address,
        reserved_bytes=reserved,
        type=type_name(type(array)),
        dtype=str(ndarray.dtype.__get__(array)),
        shape=ndarray.shape.__get__(array),
        pinned_by_view=ndarray.nbytes.__get__(array) * 4 < reserved,
    )


def _torch_storage(tensor: Any) -> Storage | None:
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunctionSubclass():
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            return None
        storage = tensor.untyped_storage()
        reserved = storage.nbytes()
        return Storage(
            address=storage.data_ptr() or None,
            reserved_bytes=reserved,
            type=type_name(type(tensor)),
            dtype=str(tensor.dtype).removeprefix("torch."),
            shape=tuple(tensor.shape),
            pinned_by_view=tensor.numel() * tensor.element_size() * 4 < reserved,
        )


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


def _bytes_storage(obj: bytes | bytearray) -> Storage:
    size = sys.getsizeof(obj)
    # a bytearray's data lies apart from its header, at an address only C can tell
    address = id(obj) if type(obj) is bytes else None
    return Storage(address, size, type_name(type(obj)), "bytes", (len(obj),))


_READERS = {
    "numpy": _numpy_storage,
    "torch": _torch_storage,
    "tensorflow": _tensorflow_storage,
    "tensorflow variable": _variable_storage,
    "jax": _jax_storage,
    "bytes": _bytes_storage,
}
