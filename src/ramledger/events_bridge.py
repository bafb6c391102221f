"""TEMPORARY, until every writer and reader has the typed events: version 1 dictionaries of them."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import MISSING, fields
from typing import Any

from ramledger.event_codec import MalformedEventError, decode
from ramledger.event_encoding import encode_header
from ramledger.event_version_1 import FIELDS, KINDS, LEVELS, upgraded
from ramledger.events import Event, Header
from ramledger.ledger import Statement

_KINDS = {new: old for old, new in KINDS.items()} | {"headroom": "room"}


def from_old(line: Any) -> Event | None:
    return decode(upgraded(line))


def typed_of(lines: Iterable[Any]) -> tuple[Event, ...]:
    """The sound ones among version 1 dictionaries."""
    found = []
    for line in lines:
        with suppress(MalformedEventError):
            found.append(from_old(json.loads(json.dumps(line))))
    return tuple(event for event in found if event is not None)


def _full(value: Any) -> Any:
    if isinstance(value, Statement):
        return value.to_dict()
    if hasattr(type(value), "__dataclass_fields__"):
        return {
            item.name: _full(one)
            for item in fields(value)
            if (one := getattr(value, item.name)) is not None
            and not (one in ((), {}) and item.default is not MISSING)
            and (one != {} or item.default_factory is MISSING)
        }
    if isinstance(value, tuple | list):
        return [_full(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _full(one) for name, one in value.items()}
    return value


def to_old(event: Event) -> dict[str, Any]:
    found = {"event": event.kind, **_full(event)}
    kind = _KINDS.get(event.kind, event.kind)
    names = {new: old for old, new in FIELDS.get(kind, {}).items()}
    old = {names.get(name, name): value for name, value in found.items()}
    old["event"] = kind
    if kind == "sample":
        old["processes"] = {pid: _levels(row) for pid, row in old["processes"].items()}
        if old.get("others") is not None:
            old["others"] = _levels(old["others"])
    if kind == "snapshot":
        statement = dict(old["statement"])
        rows = statement.pop("types")
        old["statement"] = statement
        old["sizes"] = {row["type"]: (row["count"], row["bytes"]) for row in rows}
    return old


def plain(line: Any) -> dict[str, Any] | None:
    event = from_old(line)
    return None if event is None else to_old(event)


def old_header(header: Header) -> dict[str, Any]:
    return encode_header(header)


def _levels(row: dict[str, int]) -> list[int]:
    return [row.get(name, 0) for name in LEVELS]
