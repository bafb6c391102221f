"""Values as arrays of the schema's shape and dtype: rounded to floats, otherwise unchanged."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ramledger.errors import ConfigError
from ramledger.replay.storage.backing import Array


def checked_array(name: str, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The value as an array of this shape and dtype, or an error that repeats both."""
    if type(value) is float and not shape and dtype.kind == "f":
        return np.array(value, dtype)
    array = value if type(value) is np.ndarray else _array(name, value)
    if array.dtype is dtype and array.shape == shape:
        return array
    if array.shape != shape:
        raise ConfigError(
            f"{name} has shape {array.shape}, the schema says {shape}",
            hint="check the space or wrapper that makes it, or the schema",
        )
    return array if array.dtype == dtype else _cast(name, array, dtype)


def checked_steps(
    fields: Mapping[str, Array], given: dict[str, Any], count: int | None
) -> list[Array]:
    """Step fields in order, checked; a missing or unknown name is an error."""
    if given.keys() != fields.keys():
        wrong = sorted(given.keys() ^ fields.keys())
        raise ConfigError(
            f"fields are missing or unknown: {', '.join(wrong)}",
            hint=f"a transition has {', '.join(fields)}",
        )
    front = () if count is None else (count,)
    return [
        checked_array(name, given[name], (*front, *array.shape[1:]), array.dtype)
        for name, array in fields.items()
    ]


def _array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(
            f"{name} cannot be made an array: {error}",
            hint="give an array, or numbers of one shape",
        ) from None


def _cast(name: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """Round numbers to floats, as numpy does; integers must stay exact."""
    kind, wanted = array.dtype.kind, dtype.kind
    if wanted in "fc" and (kind in "fbiu" or kind == wanted):
        return array.astype(dtype)
    if kind not in "biu":
        raise _loss(name, array, dtype, "that would lose data")
    found = array.astype(dtype)
    if not np.array_equal(found, array):
        raise _loss(name, array, dtype, "a value does not fit it")
    return found


def _loss(name: str, array: Array, dtype: np.dtype[Any], why: str) -> ConfigError:
    is_number = array.dtype.kind in "biufc"
    declared = f'declare what it holds in the schema, dtype="{array.dtype.name}", or cast it'
    return ConfigError(
        f"{name} has dtype {array.dtype}, the schema says {dtype}: {why}",
        hint=f"{declared} yourself if the loss is meant" if is_number else "give numbers",
    )
