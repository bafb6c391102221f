"""The state of a random generator as plain data, strictly typed; only generators of this list.

numpy takes positions in a state as they are, so one out of range would read foreign memory.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np

_Bit = Annotated[int, msgspec.Meta(ge=0, le=1)]
_Word = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF_FFFF)]
_Long = Annotated[int, msgspec.Meta(ge=0)]  # msgspec has no bounds above 63 bits


class _Wide(msgspec.Struct, forbid_unknown_fields=True):
    state: _Long
    inc: _Long


class _Counted(msgspec.Struct, forbid_unknown_fields=True):
    counter: Annotated[list[_Long], msgspec.Meta(min_length=4, max_length=4)]
    key: Annotated[list[_Long], msgspec.Meta(min_length=2, max_length=2)]


class _Chaotic(msgspec.Struct, forbid_unknown_fields=True):
    state: Annotated[list[_Long], msgspec.Meta(min_length=4, max_length=4)]


class _Twister(msgspec.Struct, forbid_unknown_fields=True):
    key: Annotated[list[_Word], msgspec.Meta(min_length=624, max_length=624)]
    pos: Annotated[int, msgspec.Meta(ge=0, le=624)]


class _Pcg64(
    msgspec.Struct, tag_field="bit_generator", tag="PCG64", forbid_unknown_fields=True
):  # fmt: skip
    state: _Wide
    has_uint32: _Bit
    uinteger: _Word


class _Pcg64Dxsm(
    msgspec.Struct, tag_field="bit_generator", tag="PCG64DXSM", forbid_unknown_fields=True
):
    state: _Wide
    has_uint32: _Bit
    uinteger: _Word


class _Sfc64(
    msgspec.Struct, tag_field="bit_generator", tag="SFC64", forbid_unknown_fields=True
):  # fmt: skip
    state: _Chaotic
    has_uint32: _Bit
    uinteger: _Word


class _Philox(msgspec.Struct, tag_field="bit_generator", tag="Philox", forbid_unknown_fields=True):
    state: _Counted
    buffer: Annotated[list[_Long], msgspec.Meta(min_length=4, max_length=4)]
    buffer_pos: Annotated[int, msgspec.Meta(ge=0, le=4)]
    has_uint32: _Bit
    uinteger: _Word


class _Mt19937(
    msgspec.Struct, tag_field="bit_generator", tag="MT19937", forbid_unknown_fields=True
):
    state: _Twister


Generator = _Pcg64 | _Pcg64Dxsm | _Sfc64 | _Philox | _Mt19937
GENERATORS = {
    "PCG64": np.random.PCG64, "PCG64DXSM": np.random.PCG64DXSM, "SFC64": np.random.SFC64,
    "Philox": np.random.Philox, "MT19937": np.random.MT19937,
}  # fmt: skip


def rng_state(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a generator as plain data."""
    found: dict[str, Any] = _plain(rng.bit_generator.state)
    return found


def restored_rng(plain: Mapping[str, Any]) -> np.random.Generator:
    """The generator that `rng_state` was taken of; ValueError for anything else."""
    msgspec.convert(plain, Generator)
    generator = GENERATORS[plain["bit_generator"]](0)
    try:
        generator.state = dict(plain)
    except (TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"no state of {plain['bit_generator']}: {error}") from None
    return np.random.Generator(generator)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
