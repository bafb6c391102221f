"""Buffers of Arrow tables, batches and arrays: memory of C++ that no Python object refers to."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ramledger.interpreter.type_facts import (
    ancestors,
    kept_while_reading,
    once_a_type,
    package_and_name,
)

_HOLDERS = frozenset({"Table", "RecordBatch", "ChunkedArray", "Array"})
_MOST_IN_ALL = 20_000
_KEY_CHARACTERS = 40

# made anew each time they are asked for: two that live one after the other may have one address
_made: list[Any] = kept_while_reading()


@once_a_type
def is_arrow(kind: type) -> bool:
    """Whether instances hold Arrow buffers."""
    return any(
        package == "pyarrow" and name in _HOLDERS
        for package, name in map(package_and_name, ancestors(kind))
    )


def arrow_children(holder: Any, most: int) -> Iterator[tuple[str, Any]]:
    """(label, buffer) of a table by column, of anything else without a label."""
    for label, array in _arrays(holder, most):
        with suppress(Exception):  # an array of an extension type may have none
            for buffer in array.buffers()[:most]:
                if buffer is not None and len(_made) < _MOST_IN_ALL:
                    _made.append(buffer)
                    yield label, buffer


def _arrays(holder: Any, most: int) -> Iterator[tuple[str, Any]]:
    names = getattr(holder, "column_names", None)
    if names is None:
        for chunk in _chunks(holder, most):
            yield "", chunk
        return
    for number, name in enumerate(names[:most]):
        for chunk in _chunks(holder.column(number), most):
            yield f"[{str(name)[:_KEY_CHARACTERS]!r}]", chunk


def _chunks(array: Any, most: int) -> Iterator[Any]:
    count = getattr(array, "num_chunks", None)
    if count is None:
        yield array
        return
    for number in range(min(count, most)):
        yield array.chunk(number)
