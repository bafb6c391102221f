"""A script, parsed: its calls with the names known there, its imports, classes and arguments."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.sources.data_files import read_script_text
from ramledger.plan.sources.expressions import Unknown, quietly_parsed, value_of


@dataclass(frozen=True, slots=True)
class Call:
    """One call in the script, with the names that are known where it stands."""

    name: str
    node: ast.Call
    names: Mapping[str, Any]
    target: str = ""
    function: str = ""
    owner: str = ""
    """The class in whose body it stands."""

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]

    def argument(self, name: str, position: int | None = None) -> ast.expr | None:
        """The expression of an argument, by name or position; None when it is not given."""
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return keyword.value
            if keyword.arg is None:
                found = self._spread(keyword.value, name)
                if found is not None:
                    return found
        if position is not None and position < len(self.node.args):
            node = self.node.args[position]
            return None if isinstance(node, ast.Starred) else node
        return None

    def _spread(self, node: ast.expr, name: str) -> ast.expr | None:
        """`**kwargs` whose table is known."""
        try:
            table = value_of(node, self.names)
        except Unknown:
            return None
        if not isinstance(table, dict) or name not in table:
            return None
        value = table[name]
        if isinstance(value, Unknown):
            return ast.Name(value.what)
        return _literal(value)

    def value(self, name: str, position: int | None = None, default: Any = None) -> Any:
        """The value of an argument; Unknown when only running the script would show it."""
        node = self.argument(name, position)
        return default if node is None else value_of(node, self.names)


def _literal(value: Any) -> ast.expr | None:
    try:
        tree: ast.Expression = quietly_parsed(repr(value), "eval")
        return tree.body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(slots=True)
class Script:
    """A parsed script: its calls in order, the names at its end, its imports and classes."""

    path: str
    tree: ast.Module
    given: Mapping[str, Any]
    names: Mapping[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    arguments: dict[str, tuple[Any, int]] = field(default_factory=dict)
    modules: "list[Script]" = field(default_factory=list)
    """The script's own modules that it imports, nearest first."""

    def place(self, node: ast.AST | int) -> str:
        line = node if isinstance(node, int) else getattr(node, "lineno", 0)
        return f"{self.path}:{line}"

    def find(self, *names: str) -> Iterator[Call]:
        """Calls of any of these last names, in order."""
        wanted = set(names)
        return (call for call in self.calls if call.last in wanted)

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


def parse_script(path: str, given: Mapping[str, Any]) -> Script:
    """A script's tree, with nothing followed yet."""
    text = read_script_text(path)
    try:
        tree: ast.Module = quietly_parsed(text, "exec", path)
    except SyntaxError as error:
        raise ConfigError(
            f"{path}:{error.lineno or 1}: {error.msg}", hint="it is not valid Python"
        ) from None
    except ValueError:
        raise ConfigError(f"{path}: cannot be parsed", hint="give Python source") from None
    except (RecursionError, MemoryError):  # how the parser reports too much depth
        raise ConfigError(f"{path}: nested too deeply", hint="simplify it") from None
    return Script(path, tree, given)
