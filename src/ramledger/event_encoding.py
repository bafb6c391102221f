"""An event -> plain data -> one line: the only encoder there is; small, for the agent.

Fields that have their default are left out. Nothing here needs the types of the fields.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from ramledger.events import Event, Header
from ramledger.ledger import Statement

_SIMPLE = (int, float, str, bool, type(None))


def encode(event: Event) -> dict[str, Any]:
    """The event as data that JSON knows."""
    return {"event": event.kind, **_record(event)}


def encode_header(header: Header) -> dict[str, Any]:
    return _record(header)


def kind_of(data: Mapping[str, Any]) -> str:
    """The kind of an event that `encode` has made data of; '' if it has none."""
    kind = data.get("event")
    return kind if isinstance(kind, str) else ""


def json_line(data: Mapping[str, Any]) -> bytes:
    """One line of JSON; empty if it is no data at all. JSON has no NaN: it becomes null."""
    try:
        try:
            text = json.dumps(data, separators=(",", ":"), default=str, allow_nan=False)
        except ValueError:
            loose = json.dumps(data, default=str)
            text = json.dumps(json.loads(loose, parse_constant=lambda _: None))
    except (TypeError, ValueError, RecursionError):
        return b""
    return text.encode() + b"\n"


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, Any], ...]:
    """(name, default) of each field; a field without a default has MISSING."""
    return tuple(
        (item.name, item.default if item.default_factory is MISSING else item.default_factory())
        for item in fields(kind)
    )


def _record(value: Any) -> dict[str, Any]:
    found = {}
    kind: Any = type(value)
    for name, default in _fields_of(kind):
        one = getattr(value, name)
        if one != default or default is MISSING:
            found[name] = _plain(one)
    return found


def _plain(value: Any) -> Any:
    if type(value) in _SIMPLE:
        return value
    return _ENCODERS.get(type(value), _of_another_type)(value)


def _of_another_type(value: Any) -> Any:
    return _record(value) if hasattr(type(value), "__dataclass_fields__") else value


def _rows(value: Any) -> list[Any]:
    return [_plain(one) for one in value]


_ENCODERS: dict[type, Callable[[Any], Any]] = {
    tuple: _rows,
    list: _rows,
    dict: lambda value: {str(name): _plain(one) for name, one in value.items()},
    Statement: Statement.to_dict,
}
