"""A parsed line of a recording -> an event, checked: the only decoder there is.

A recording may come from a stranger. A value of another type than declared, a number that no
machine can have, or a missing field makes the event malformed; longer texts and lists are cut.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from math import isfinite
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from ramledger.errors import ConfigError
from ramledger.event_parts import MOST, Document, Plan, ProcessMemory, Real, Shape, Whole
from ramledger.event_statement import EntryPart, LimitPart, StatementPart
from ramledger.events import EVENTS, Event, Header
from ramledger.ledger import STATEMENT_SCHEMA, Limit, Source, Statement

MAX_TEXT = 2000  # characters
MAX_ROWS = 300  # of a list, and keys of a mapping; the recorder writes 130 at most
MAX_PROCESSES = 5000
MAX_DEPTH = 6  # of data that is not declared in detail
_SIDES = 32
_SOURCES = frozenset(map(str, Source))

Check = Callable[[Any], Any]
Plain = dict[str, Any]


class MalformedEventError(ValueError):
    """A line that is no event as declared: it is dropped, and counted."""


def decode(line: Any) -> Event | None:
    """The event of a parsed line; None for a kind that this version does not know."""
    kind = _kind_of(line)
    found: Event | None = _record(kind, True)(line) if kind is not None else None
    return found


def decode_header(line: Mapping[str, Any]) -> tuple[Header, int]:
    """The header, and how many of its fields were malformed: a file is not refused for these."""
    found: Plain = {}
    malformed = 0
    for name, check, _ in _fields_of(Header, True):
        value = line.get(name)
        try:
            if value is not None:
                found[name] = check(value)
        except MalformedEventError:
            malformed += 1
    return Header(**found), malformed


def decode_plan(document: Any) -> Plan:
    """The plan of a `ramledger.plan/1` document."""
    found: Plan = _record(Plan, True)(document)
    return found


def _kind_of(line: Any) -> Any:
    kind = line.get("event") if type(line) is dict else None
    if type(kind) is not str:
        raise MalformedEventError("no event")
    return EVENTS.get(kind)


# ---- records ----------------------------------------------------------------------------------


@cache
def _fields_of(kind: Any, as_objects: bool) -> tuple[tuple[str, Check, bool], ...]:
    """(name, check, whether it is required) of each field."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        (
            item.name,
            _check_for(hints[item.name], as_objects),
            item.default is MISSING and item.default_factory is MISSING,
        )
        for item in fields(kind)
    )


@cache
def _record(kind: Any, as_objects: bool) -> Check:
    rows = _fields_of(kind, as_objects)
    beyond = _BEYOND_TYPES.get(kind)
    defaults = {
        item.name: item.default
        for item in fields(kind)
        if type(item.default) in (int, float, str, bool) and not as_objects
    }

    nullable = frozenset(item.name for item in fields(kind) if item.default is None)

    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise MalformedEventError(f"no {kind.__name__}")
        found = defaults.copy()
        for name, field_check, is_required in rows:
            raw = value.get(name)
            if raw is not None:
                found[name] = field_check(raw)
            elif name in nullable and name in value:
                found[name] = None
            elif is_required:
                raise MalformedEventError(f"{kind.__name__} without {name}")
        if beyond is not None:
            beyond(found)
        return kind(**found) if as_objects else found

    return check


def _is_statement(found: Plain) -> None:
    if found["schema"] != STATEMENT_SCHEMA:
        raise MalformedEventError("another kind of statement")
    if sum(row["resident_bytes"] for row in found["accounts"]) > found["rss_bytes"]:
        raise MalformedEventError("accounts exceed RSS")


def _statement(value: Any) -> Statement:
    try:
        whole = {"facts": {}, **value} if type(value) is dict else value
        return Statement.from_dict(_record(StatementPart, False)(whole))
    except ConfigError as error:
        raise MalformedEventError(str(error)) from error


def _limit(value: Any) -> Limit:
    return Limit(**_record(LimitPart, False)(value))


def _is_entry(found: Plain) -> None:
    if found["source"] not in _SOURCES:
        raise MalformedEventError("no source of an entry")


# what a record must be that its fields' types do not say
_BEYOND_TYPES: Mapping[type, Callable[[Plain], None]] = {
    EntryPart: _is_entry,
    StatementPart: _is_statement,
}


# ---- values -----------------------------------------------------------------------------------


def _check_for(hint: Any, as_objects: bool) -> Check:
    """The check that a type stands for."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _check_for_mark(arguments[1])
    if origin in (types.UnionType, Union):  # with None, which is left out before
        return _check_for(next(a for a in arguments if a is not type(None)), as_objects)
    if origin is tuple:
        return _rows_of(_check_for(arguments[0], as_objects), tuple if as_objects else list)
    if origin is Mapping:
        item = _check_for(arguments[1], as_objects)
        return _by_pid(item) if arguments[0] is int else _mapping_of(item)
    return _KNOWN.get(hint) or _record(hint, as_objects)


def _check_for_mark(mark: Any) -> Check:
    if isinstance(mark, Whole):
        check = _whole_between(mark.least, mark.most)
        check = _also_as_text(check) if mark.as_text else check
        return _or_none(check) if mark.or_none else check
    if isinstance(mark, Real):
        check = _real_between(mark.least, mark.most, mark.digits)
        return _or_none(check) if mark.or_none else check
    return {Shape: _shape, Document: _document}[type(mark)]


def _whole_between(least: int, most: int) -> Check:
    def check(value: Any) -> int:
        if type(value) is float and isfinite(value):
            value = int(value)
        if type(value) is int and least <= value <= most:
            return value
        raise MalformedEventError("not a whole number in its bounds")

    return check


def _also_as_text(check: Check) -> Check:
    def read(value: Any) -> Any:
        if type(value) is str and len(value) < 20 and value.removeprefix("-").isdecimal():
            value = int(value)
        return check(value)

    return read


def _or_none(check: Check) -> Check:
    """None for a number beyond the bounds; what is no number is malformed all the same."""

    def read(value: Any) -> Any:
        try:
            return check(value)
        except MalformedEventError:
            if type(value) not in (int, float):
                raise
            return None

    return read


def _real_between(least: float, most: float, digits: int) -> Check:
    def check(value: Any) -> float:
        if type(value) in (int, float) and least <= value <= most:
            return round(float(value), digits)
        raise MalformedEventError("not a number in its bounds")

    return check


def _text(value: Any) -> str:
    if type(value) is not str:
        raise MalformedEventError("not a text")
    return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "…"


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise MalformedEventError("neither true nor false")
    return value


_MEMORY_FIELDS = tuple(item.name for item in fields(ProcessMemory))


def _process_memory(value: Any) -> ProcessMemory:
    """As `_record` would, in a fraction of the time: a day of 200 processes has millions."""
    if type(value) is not dict:
        raise MalformedEventError("no ProcessMemory")
    found = [value.get(name, 0) for name in _MEMORY_FIELDS]
    for size in found:
        if type(size) is not int or not 0 <= size <= MOST:
            raise MalformedEventError("not a size")
    return ProcessMemory(*found)


_KNOWN: Mapping[Any, Check] = {
    str: _text,
    bool: _flag,
    Statement: _statement,
    Limit: _limit,
    ProcessMemory: _process_memory,
}


def _rows_of(item: Check, make: Callable[[list[Any]], Any]) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not list:
            raise MalformedEventError("not a list")
        return make([item(one) for one in value[:MAX_ROWS]])

    return check


def _mapping_of(item: Check) -> Check:
    def check(value: Any) -> Plain:
        if type(value) is not dict:
            raise MalformedEventError("not a mapping")
        pairs = list(value.items())[:MAX_ROWS] if len(value) > MAX_ROWS else value.items()
        return {_text(name): item(one) for name, one in pairs}

    return check


def _by_pid(item: Check) -> Check:
    def check(value: Any) -> dict[int, Any]:
        if type(value) is not dict or len(value) > MAX_PROCESSES:
            raise MalformedEventError("no processes")
        for pid in value:
            if len(pid) > 15 or not (pid.isascii() and pid.isdecimal()):
                raise MalformedEventError("not a pid")
        return {int(pid): item(one) for pid, one in value.items()}

    return check


def _shape(value: Any) -> tuple[int, ...]:
    if type(value) is not list or len(value) > _SIDES:
        raise MalformedEventError("not a shape")
    elements = 1
    for side in value:
        if type(side) is not int or not 0 <= side <= MOST:
            raise MalformedEventError("not a side")
        elements *= max(1, side)
    return tuple(value) if elements <= MOST else ()


def _document(value: Any, depth: int = MAX_DEPTH) -> Any:
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return _text(value)
    if type(value) in (int, float):
        if not (isfinite(value) if type(value) is float else abs(value) <= MOST):
            raise MalformedEventError("not a number in its bounds")
        return value
    if not depth:
        raise MalformedEventError("nested too deep")
    if type(value) is list:
        return [_document(item, depth - 1) for item in value[:MAX_ROWS]]
    pairs = list(value.items())[:MAX_ROWS]
    return {_text(name): _document(item, depth - 1) for name, item in pairs}
