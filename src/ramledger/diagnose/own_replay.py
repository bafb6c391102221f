"""Replay buffers that people write themselves: their rows in a statement, and what is in them.

A snapshot recognizes them by what they hold (`facts["replays"]`); here that is read, from any
recording, and the same rows are called `replay/…`, as those of a library's buffer are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile
from math import prod
from typing import Any

from ramledger.ledger import Entry, Statement

_VARIABLES, _REPLAY = "variables/", "replay/"
_ARRAYS = "arrays"
# what a transition takes beside its data in ours: where it starts, its flags, and of stacks how
# many frames before it are its own (replay.schema)
_BESIDE_BYTES, _BESIDE_STACK_BYTES = 5, 2
_MOST_SIDE, _MOST_SIDES = 1 << 40, 16


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a transition."""

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    is_whole: bool

    @property
    def is_wide(self) -> bool:
        return self.dtype == "float64"

    @property
    def sides(self) -> tuple[int, ...]:
        """Its shape without a batch of one."""
        return tuple(dropwhile(lambda side: side == 1, self.shape))

    @property
    def narrow_bytes(self) -> int:
        """With float32 for float64."""
        if self.kind == "number" or self.is_wide:
            return self.bytes // 2
        return self.bytes

    @property
    def narrow_dtype(self) -> str:
        return "float32" if self.is_wide or not self.dtype else self.dtype


@dataclass(frozen=True, slots=True)
class OwnReplay:
    """One buffer of the program's own."""

    path: str
    accounts: tuple[str, ...]
    length: int
    capacity: int | None
    bytes: int
    element: str
    parts: tuple[Part, ...]
    stored_twice: float
    breaks: float
    moved_rows: int
    axis: int
    fits_bytes: bool
    made_in: Mapping[str, str]
    added_in: Mapping[str, str]
    drawn_in: Mapping[str, str]

    @property
    def is_arrays(self) -> bool:
        return self.element == _ARRAYS

    @property
    def rows(self) -> frozenset[str]:
        """Its accounts, by both of their names."""
        return frozenset(self.accounts) | frozenset(map(_renamed, self.accounts))

    @property
    def fill(self) -> float | None:
        return min(1.0, self.length / self.capacity) if self.capacity else None

    @property
    def observation(self) -> Part:
        return next(part for part in self.parts if part.kind == "observation")

    @property
    def others(self) -> list[Part]:
        """All but the two observations."""
        return [part for part in self.parts if part.kind not in ("observation", "next observation")]

    @property
    def stack(self) -> int:
        """Rows or frames that make an observation, where each next one brings one new; else 1."""
        sides = self.observation.sides
        if self.moved_rows != 1 or len(sides) < 2:
            return 1
        return sides[0] if self.axis == 0 else sides[-1]

    @property
    def dtype(self) -> str:
        """The narrowest that holds its observations, as far as it was seen."""
        return "uint8" if self.fits_bytes else self.observation.narrow_dtype

    @property
    def slim_bytes(self) -> int:
        """What as many transitions take where observations are stored once, and narrow."""
        part = self.observation
        whole = prod(part.shape) if self.fits_bytes else part.narrow_bytes
        row = whole // self.stack
        rows = 1 + self.breaks * self.stack
        each = row * rows + sum(part.narrow_bytes for part in self.others) + _BESIDE_BYTES
        if self.stack > 1:
            each += _BESIDE_STACK_BYTES
        return round(each * self.length)


def own_replays(statement: Statement) -> list[OwnReplay]:
    """Those that a snapshot has found, the largest first."""
    facts = statement.facts.get("replays")
    return list(_read(facts)) if isinstance(facts, list | tuple) else []


def _read(facts: Any) -> Iterator[OwnReplay]:
    for fact in facts:
        try:
            found = _one(fact)
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
            continue  # of another version, or no recording of ours
        if found is not None:
            yield found


def _one(fact: Any) -> OwnReplay | None:
    content = fact["content"]
    parts = tuple(
        Part(
            str(one["name"]), str(one["kind"]), _sides(one["shape"]), str(one["dtype"]),
            _whole(one["bytes"]), bool(one["is_whole"]),
        )
        for one in content["fields"]
    )  # fmt: skip
    found = OwnReplay(
        path=str(fact["path"]),
        accounts=tuple(map(str, fact["accounts"])),
        length=_whole(fact["length"]),
        capacity=_whole(fact["capacity"]) if fact["capacity"] else None,
        bytes=_whole(fact["bytes"]),
        element=str(content["element"]),
        parts=parts,
        stored_twice=_share(content["stored_twice"]),
        breaks=_share(content["breaks"]),
        moved_rows=_whole(content["moved_rows"]),
        axis=-1 if content["axis"] else 0,
        fits_bytes=content.get("fits_bytes") is True,
        made_in=_lines(fact["made_in"]),
        added_in=_lines(fact["added_in"]),
        drawn_in=_lines(fact["drawn_in"]),
    )
    shape = found.observation.shape
    return found if found.length and prod(shape) and found.bytes else None


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(value)
    return value


def _share(value: Any) -> float:
    return min(1.0, max(0.0, float(value)))


def _sides(value: Any) -> tuple[int, ...]:
    sides = tuple(map(_whole, value))
    if len(sides) > _MOST_SIDES or any(side > _MOST_SIDE for side in sides):
        raise ValueError(value)
    return sides


def _lines(value: Any) -> dict[str, str]:
    return {str(name): str(line) for name, line in value.items()}


# ---- rows --------------------------------------------------------------------------------------


def with_replay_rows(statement: Statement) -> Statement:
    """The same statement; rows of such buffers are called `replay/…` and say how full they are."""
    fills = {account: one.fill for one in own_replays(statement) for account in one.accounts}
    if not fills:
        return statement
    return replace(
        statement,
        entries=tuple(_row(entry, fills) for entry in statement.entries),
        large_objects=tuple(
            replace(item, account=_renamed(item.account)) if item.account in fills else item
            for item in statement.large_objects
        ),
    )


def _row(entry: Entry, fills: Mapping[str, float | None]) -> Entry:
    if entry.account not in fills:
        return entry
    fill = entry.fill if entry.fill is not None else fills[entry.account]
    return replace(entry, account=_renamed(entry.account), fill=fill)


def _renamed(account: str) -> str:
    return _REPLAY + account.removeprefix(_VARIABLES)
