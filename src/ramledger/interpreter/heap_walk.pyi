"""The compiled walk over tracked objects; see heap_walk.c."""

from typing import Any

class _Walk: ...

def new_walk(first: int, second: int, third: int, every: int, /) -> _Walk: ...
def search(
    walk: _Walk,
    array: type | None,
    getters: tuple[Any, ...],
    others: tuple[type, ...],
    large: int,
    room: int,
    /,
) -> None: ...
def mark(
    walk: _Walk, kind: type, what: int, basic: int, item: int, size_method: Any, /
) -> None: ...
def go_on(
    walk: _Walk, most: int, /
) -> tuple[list[Any], list[type], list[tuple[Any, ...]], list[Any], bool]: ...
def counts(walk: _Walk, /) -> list[tuple[type, int, int, int, int]]: ...
def addresses(walk: _Walk, /) -> list[int]: ...
