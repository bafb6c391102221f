"""Collects a config's fields from a script's calls, and lists what was not resolved."""

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ramledger.plan.plan_config import FIELDS, merged
from ramledger.plan.sources.expressions import Choice, Unknown, at_end, choices_in, is_known
from ramledger.plan.sources.script_scopes import Call, Script
from ramledger.plan.sources.source_result import SearchRange


def whole(value: Any) -> int:
    """A count: 1e6 is one, True and "4" are not."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value != int(value):
        raise Unknown(f"{value!r}, no whole number,")
    return int(value)


def _converted(convert: Callable[[Any], Any], value: Any) -> Any:
    """Converted at both ends of a choice."""
    if isinstance(value, Choice):
        return replace(value, low=convert(value.low), high=convert(value.high))
    return convert(value)


class Fields:
    """Fields found so far."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.values: dict[str, Any] = {}
        self.places: dict[str, str] = {}
        self.unresolved: list[str] = []
        self.resolved: list[str] = []
        self.ranges: list[SearchRange] = []
        self.assumed: list[str] = []

    def put(self, field: str, value: Any, line: int) -> None:
        """A field with a known value; of a range that a search varies, the lowest."""
        choice = next(choices_in(value), None)
        if choice is not None:
            where = self.script.place(choice.line)
            high = at_end(value, "high")
            value = at_end(value, "low")
            self.ranges.append(SearchRange(field, value, high, where, choice.line))
        self.values[field] = value
        self.places[field] = self.script.place(line)
        if field not in self.resolved:
            self.resolved.append(field)

    def put_count(self, field: str, value: Any, line: int) -> None:
        """A field that must be a whole number."""
        try:
            self.put(field, _converted(whole, value), line)
        except Unknown as unknown:
            self.miss(field, unknown.what, line)

    def miss(self, field: str, what: str, line: int, script: Script | None = None) -> None:
        """A field whose value only running the script would show; `script`: a module of it."""
        if field in self.script.given:
            return
        place = (script or self.script).place(line)
        self.unresolved.append(f"{place}: {field} is {what}: give it with --set {field}=…")

    def assume(self, text: str) -> None:
        """What the reader takes for granted."""
        if text not in self.assumed:
            self.assumed.append(text)

    def take(
        self,
        field: str,
        call: Call,
        argument: str,
        position: int | None = None,
        convert: Callable[[Any], Any] = whole,
    ) -> None:
        """A field from a call's argument, when it is given there."""
        node = call.argument(argument, position)
        if node is None:
            return
        line = getattr(node, "lineno", call.line)
        try:
            value = call.value(argument, position)
            if value is None:
                return
            if not is_known(value):
                raise Unknown(ast.unparse(node)[:60])
            self.put(field, _converted(convert, value), line)
        except Unknown as unknown:
            self.miss(field, unknown.what, line)

    def finish(self) -> dict[str, Any]:
        """The fields, with the user's values on top."""
        given = {name: value for name, value in self.script.given.items() if name in FIELDS}
        return merged(self.values, given)
