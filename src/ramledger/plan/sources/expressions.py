"""Python expressions as values, read and never run: literals, arithmetic, dict(…), 2**14."""

import ast
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Literal

from ramledger.plan.sources.known_objects import Record, is_array, made_by, wrapped
from ramledger.plan.sources.script_names import Work

MAX_NUMBER = 10**18
MAX_LENGTH = 100_000  # elements of a value and of all in it, and characters
_MAX_PRINTED_NODES = 100
_ELEMENTS_A_STEP = 4
_SMALL = 256  # values up to this size are free: most scripts hold a few plain ones
_MAX_DIGITS = 20
_ENDS: tuple[Literal["low", "high"], ...] = ("low", "high")
_SEQUENCES: dict[str, Callable[..., Any]] = {
    "range": range, "zip": zip, "enumerate": enumerate, "pairwise": pairwise, "reversed": reversed,
}  # fmt: skip
_SIZED = (str, bytes, list, tuple, dict)


class Unknown(Exception):
    """The expression needs something that only running it would show."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@dataclass(frozen=True, slots=True)
class Choice:
    """What an Optuna trial suggests: one value of many."""

    low: Any
    high: Any
    line: int


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CASTS: dict[str, Callable[[Any], Any]] = {
    "int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple,
    "min": min, "max": max, "len": len, "abs": abs, "round": round,
}  # fmt: skip


def name_of(node: ast.expr) -> str:
    """The dotted name of an expression, or ''."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inside = name_of(node.value)
        return f"{inside}.{node.attr}" if inside else ""
    return ""


def quietly_parsed(text: str, mode: str, path: str = "<text>") -> Any:
    """A tree of Python, without the compiler's warnings about the script."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, path, mode)


def parsed(text: str) -> ast.expr:
    """An expression's tree; Unknown when it is not one, or nested too deeply."""
    try:
        tree: ast.Expression = quietly_parsed(text.strip(), "eval")
        return tree.body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unknown("not an expression") from None


def is_known(value: Any) -> bool:
    """Whether nothing in a value is unknown."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return all(is_known(part) for part in value)
    return not isinstance(value, Unknown)


def choices_in(value: Any) -> Iterator[Choice]:
    """Every choice in a value."""
    if isinstance(value, Choice):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from choices_in(part)


def at_end(value: Any, end: Literal["low", "high"]) -> Any:
    """A value with each choice at its lowest or at its highest."""
    if isinstance(value, Choice):
        return getattr(value, end)
    if isinstance(value, dict):
        return type(value)({key: at_end(part, end) for key, part in value.items()})
    if isinstance(value, list | tuple):
        return type(value)(at_end(part, end) for part in value)
    return value


def value_of(node: ast.expr, names: Mapping[str, Any] | None = None) -> Any:
    """The value of an expression; Unknown names what is missing."""
    try:
        return _Values({} if names is None else names, getattr(names, "work", None) or Work()).of(
            node
        )
    except RecursionError:
        raise Unknown("nested too deeply") from None
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, KeyError, IndexError) as error:
        raise Unknown(str(error)) from None


class _Values:
    def __init__(self, names: Mapping[str, Any], work: Work) -> None:
        self._names = names
        self._work = work

    def of(self, node: ast.expr) -> Any:
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise Unknown(_source(node))
        if not isinstance(node, ast.Constant | ast.Name) and not self._work.spend(1):
            raise Unknown("more than can be followed")
        value = method(node)
        # callers may walk, compare and print a value, so its size is bounded
        self._check_size(value)
        return value

    def _check_size(self, value: Any) -> None:
        if isinstance(value, int):
            if abs(value) > MAX_NUMBER:
                raise Unknown("a number beyond reason")
        elif isinstance(value, _SIZED):
            size = size_of(value)
            if size > MAX_LENGTH:
                raise Unknown("a value beyond reason")
            if size > _SMALL and not self._work.spend(size // _ELEMENTS_A_STEP):
                raise Unknown("more than can be followed")

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _name(self, node: ast.Name) -> Any:
        if node.id in self._names:
            return self._names[node.id]
        raise Unknown(node.id)

    def _attribute(self, node: ast.Attribute) -> Any:
        name = name_of(node)
        if name in self._names:
            return self._names[name]
        try:
            holder = self.of(node.value)
        except Unknown:
            raise Unknown(name or _source(node)) from None
        if isinstance(holder, Record) and node.attr in holder:
            return _known(holder[node.attr])
        raise Unknown(name or _source(node))

    def _list(self, node: ast.List) -> list[Any]:
        return self._items(node.elts)

    def _tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._items(node.elts))

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found += self.of(node.value)
                if len(found) > MAX_LENGTH:
                    raise Unknown("a sequence beyond reason")
                continue
            try:
                found.append(self.of(node))
            except Unknown as unknown:
                # its length is known even so
                found.append(Unknown(unknown.what))
        return found

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                found.update(self.of(value))
                continue
            try:
                found[self.of(key)] = self.of(value)
            except Unknown as unknown:
                found[self.of(key)] = Unknown(unknown.what)
        return found

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.of(node.operand)
        if is_array(value):
            return value
        if isinstance(node.op, ast.USub):
            return -value
        if isinstance(node.op, ast.Not):
            return not value
        return value

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.of(node.left), self.of(node.right)
        arrays = [part for part in (left, right) if is_array(part)]
        if arrays:
            return max(arrays, key=lambda part: int(part["size"]))
        choice = next((part for part in (left, right) if isinstance(part, Choice)), None)
        if choice is None:
            return self._computed(node, left, right)
        ends = [
            self._computed(node, at_end(left, end), at_end(right, end)) for end in ("low", "high")
        ]
        return Choice(ends[0], ends[1], choice.line)

    def _computed(self, node: ast.BinOp, left: Any, right: Any) -> Any:
        if isinstance(node.op, ast.Pow):
            if not (isinstance(left, int | float) and isinstance(right, int | float)):
                raise Unknown(_source(node))
            if abs(left) > 1 and abs(right) > 64:
                raise Unknown(f"{_source(node)}, a number beyond reason")
            return left**right
        if isinstance(node.op, ast.LShift) and 0 <= right <= 62:
            return left << right
        function = _BINARY.get(type(node.op))
        if function is None:
            raise Unknown(_source(node))
        return _sane(function, left, right, node)

    def _ifexp(self, node: ast.IfExp) -> Any:
        try:
            return self.of(node.body) if self.of(node.test) else self.of(node.orelse)
        except Unknown:
            return self.of(node.orelse)

    def _compare(self, node: ast.Compare) -> Any:
        if len(node.ops) != 1:
            raise Unknown(_source(node))
        left, right = self.of(node.left), self.of(node.comparators[0])
        kinds: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
            ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
            ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
        }  # fmt: skip
        function = kinds.get(type(node.ops[0]))
        if function is None:
            raise Unknown(_source(node))
        return function(left, right)

    def _subscript(self, node: ast.Subscript) -> Any:
        container = self.of(node.value)
        if isinstance(node.slice, ast.Slice):
            ends = (node.slice.lower, node.slice.upper, node.slice.step)
            return container[slice(*(None if end is None else self.of(end) for end in ends))]
        return _known(container[self.of(node.slice)])

    def _joinedstr(self, node: ast.JoinedStr) -> str:
        parts = []
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            parts.append(str(self.of(inner)))
            if sum(map(len, parts)) > MAX_LENGTH:
                raise Unknown("a text beyond reason")
        return "".join(parts)

    def _call(self, node: ast.Call) -> Any:
        name = name_of(node.func)
        if name == "dict" and not node.args:
            found: dict[Any, Any] = {}
            for keyword in node.keywords:
                if keyword.arg is None:
                    found.update(self.of(keyword.value))
                    continue
                try:
                    found[keyword.arg] = self.of(keyword.value)
                except Unknown as unknown:
                    found[keyword.arg] = Unknown(unknown.what)
            return found
        if name in _CASTS and not node.keywords and node.args:
            arguments = [self.of(argument) for argument in node.args]
            if name == "round" and len(arguments) > 1 and not _is_below(arguments[1], _MAX_DIGITS):
                raise Unknown(_source(node))
            return _cast(name, arguments)
        if name.rpartition(".")[2] in _SEQUENCES and node.args:
            return _sequence(name, [self.of(argument) for argument in node.args])
        if ".suggest_" in name:
            return self._suggested(node, name.rpartition(".")[2])
        return self._made(node, name)

    def _made(self, node: ast.Call, name: str) -> Any:
        """A known object, an entry of a table, or an instance of a class of the script's own."""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
            table = self.of(node.func.value)
            if isinstance(table, dict):
                default = self.of(node.args[1]) if len(node.args) > 1 else None
                return _known(table.get(self.of(node.args[0]), default))
        own = self._own(node.func, name)
        if isinstance(own, Record) and "observation_space" not in own:
            inner = self._or_unknown(node.args[0]) if node.args else None
            own = inner if isinstance(inner, Record) and "observation_space" in inner else own
        if isinstance(own, Record):
            given = {k.arg: self._or_unknown(k.value) for k in node.keywords if k.arg}
            return Record(own | {key: value for key, value in given.items() if key in own})
        found = made_by(name, node, self.of)
        if found is None:
            found = wrapped(name, node, self.of)
        if found is None:
            raise Unknown(_source(node))
        return found

    def _own(self, function: ast.expr, name: str) -> Any:
        """A class of the script's own, or what a function of its own returns."""
        for found in (self._names.get(f"{name}()"), self._names.get(name)):
            if isinstance(found, Record):
                return found
        if isinstance(function, ast.Attribute):
            try:
                holder = self.of(function.value)
            except Unknown:
                return None
            if isinstance(holder, Record):
                return holder.get(f"{function.attr}()", holder.get(function.attr))
        return None

    def _or_unknown(self, node: ast.expr) -> Any:
        try:
            return self.of(node)
        except Unknown as unknown:
            return Unknown(unknown.what)

    def _suggested(self, node: ast.Call, kind: str) -> Choice:
        """`trial.suggest_int("n_envs", 4, 15)`."""
        arguments = [*node.args]
        arguments += [k.value for k in node.keywords if k.arg in ("low", "high", "choices")]
        values = [self.of(argument) for argument in arguments[1:]]
        if kind == "suggest_categorical" and values:
            numbers = [value for value in values[0] if isinstance(value, int | float)]
            if numbers:
                return Choice(min(numbers), max(numbers), node.lineno)
        elif kind in ("suggest_int", "suggest_float") and len(values) >= 2:
            return Choice(values[0], values[1], node.lineno)
        raise Unknown(_source(node))


def _known(value: Any) -> Any:
    """The value itself; an unknown one is raised."""
    if isinstance(value, Unknown):
        raise Unknown(value.what)
    return value


def _sequence(name: str, arguments: list[Any]) -> list[Any]:
    """`range(3)`, `zip(widths[:-1], widths[1:])`, as far as a loop is followed."""
    if name == "range" and any(_is_below(part, MAX_LENGTH) is False for part in arguments):
        raise Unknown("a long loop")
    return list(_SEQUENCES[name.rpartition(".")[2]](*arguments))


def _cast(name: str, arguments: list[Any]) -> Any:
    """`int(x)`; of a choice at both of its ends."""
    choice = next(choices_in(arguments), None)
    if choice is not None:
        low, high = (_CASTS[name](*at_end(arguments, end)) for end in _ENDS)
        return Choice(low, high, choice.line)
    if name == "len" and is_array(arguments[0]):
        return arguments[0]["shape"][0]
    return _CASTS[name](*arguments)


def _sane(function: Callable[[Any, Any], Any], left: Any, right: Any, node: ast.expr) -> Any:
    lengths = [len(part) for part in (left, right) if isinstance(part, str | bytes | list | tuple)]
    if lengths and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        times = right if isinstance(right, int) else left
        if not isinstance(times, int) or lengths[0] * times > MAX_LENGTH:
            raise Unknown("a sequence beyond reason")
    if isinstance(left, str | bytes) and isinstance(getattr(node, "op", None), ast.Mod):
        raise Unknown(_source(node))
    value = function(left, right)
    if isinstance(value, int | float) and abs(value) > MAX_NUMBER:
        raise Unknown("a number beyond reason")
    return value


def size_of(value: Any) -> int:
    """Elements and characters of a value with all in it, counted to a little above the limit."""
    size = 0
    pending = [value]
    while pending and size <= MAX_LENGTH:
        part = pending.pop()
        size += len(part)
        if isinstance(part, list | tuple | dict) and size <= MAX_LENGTH:
            inner = [*part, *part.values()] if isinstance(part, dict) else part
            pending += [one for one in inner if isinstance(one, _SIZED)]
    return size


def _is_below(value: Any, most: int) -> bool:
    return isinstance(value, int) and abs(value) <= most


def _source(node: ast.expr) -> str:
    if sum(1 for _ in islice(ast.walk(node), _MAX_PRINTED_NODES)) == _MAX_PRINTED_NODES:
        return f"a long expression in line {node.lineno}"
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."
