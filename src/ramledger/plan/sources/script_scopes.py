"""A script's names and calls, found by reading it: constants, defaults, arguments, scopes.

Assignments are followed in order, function by function; a call of a function by its name hands
its arguments over. What cannot be known without running the script stays unknown, by name.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.sources.data_files import read_script_text
from ramledger.plan.sources.expressions import Unknown, name_of, quietly_parsed, value_of
from ramledger.plan.sources.script_names import Scope

MAX_CALLS = 20_000


@dataclass(frozen=True, slots=True)
class Call:
    """One call in the script, with the names that are known where it stands."""

    name: str
    node: ast.Call
    names: Mapping[str, Any]
    target: str = ""
    function: str = ""

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

    def place(self, node: ast.AST | int) -> str:
        line = node if isinstance(node, int) else getattr(node, "lineno", 0)
        return f"{self.path}:{line}"

    def find(self, *names: str) -> Iterator[Call]:
        """Calls of any of these last names, in order."""
        wanted = set(names)
        return (call for call in self.calls if call.last in wanted)

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


def load_script(path: str, given: Mapping[str, Any], used_by: "Script | None" = None) -> Script:
    """Parse a script and follow its names; `used_by` calls its functions and classes."""
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
    script = Script(path, tree, given)
    try:
        _Walk(script, used_by).run()
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply", hint="simplify it") from None
    return script


class _Walk:
    """Follows statements in order; functions are entered where they are defined."""

    def __init__(self, script: Script, used_by: Script | None = None) -> None:
        self.script = script
        self.bound: dict[str, tuple[ast.Call, Mapping[str, Any] | None]] = {}
        for call in used_by.calls if used_by else ():
            self.bound.setdefault(call.last, (call.node, call.names))

    def run(self) -> None:
        script = self.script
        for node in ast.walk(script.tree):
            self._imports(node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self.bound.setdefault(node.func.id, (node, None))
        names = Scope()
        names.update(script.given)
        self._defaults_of_classes(names)
        self._arguments_of_parsers(names)
        self._block(script.tree.body, names, "")
        script.names = names

    def _imports(self, node: ast.AST) -> None:
        script = self.script
        if isinstance(node, ast.Import):
            for alias in node.names:
                script.imports.add(alias.name.split(".")[0])
                if alias.asname:
                    script.aliases[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            script.imports.add(node.module.split(".")[0])
            for alias in node.names:
                script.aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def _defaults_of_classes(self, names: Scope) -> None:
        """`class Args: num_envs: int = 4` makes args.num_envs 4."""
        for node in self.script.classes():
            found = _class_defaults(node, names)
            if not found or node.bases:
                continue
            for name, (value, line) in found.items():
                self.script.arguments.setdefault(name, (self._chosen(name, value), line))
        self._spread_arguments(names)

    def _arguments_of_parsers(self, names: Scope) -> None:
        """`parser.add_argument("--num-envs", default=4)` makes args.num_envs 4."""
        for node in ast.walk(self.script.tree):
            if not isinstance(node, ast.Call) or name_of(node.func).split(".")[-1] not in (
                "add_argument", "option",
            ):  # fmt: skip
                continue
            name = _option_name(node)
            default = next((k.value for k in node.keywords if k.arg == "default"), None)
            if not name or default is None:
                continue
            try:
                value = value_of(default, names)
            except Unknown as unknown:
                value = unknown
            self.script.arguments[name] = (self._chosen(name, value), node.lineno)
        self._spread_arguments(names)

    def _chosen(self, name: str, value: Any) -> Any:
        return self.script.given.get(name, value)

    def _spread_arguments(self, names: Scope) -> None:
        for name, (value, _) in self.script.arguments.items():
            if not isinstance(value, Unknown):
                for holder in ("args", "arg", "opt", "opts", "config", "cfg", "params", "flags"):
                    names.setdefault(f"{holder}.{name}", value)

    def _block(self, body: list[ast.stmt], names: Scope, function: str) -> None:
        for statement in body:
            self._statement(statement, names, function)

    def _statement(self, node: ast.stmt, names: Scope, function: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._function(node, names, function)
        elif isinstance(node, ast.ClassDef):
            self._class(node, names)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._assign(node, names, function)
        elif isinstance(node, ast.If):
            self._calls(node.test, names, "", function)
            self._branches(node, names, function)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith):
            self._compound(node, names, function)
        elif isinstance(node, ast.Try):
            self._block([*node.body, *node.orelse, *node.finalbody], names, function)
            for handler in node.handlers:
                self._block(handler.body, names.inner(), function)
        else:
            self._calls(node, names, "", function)

    def _compound(
        self,
        node: ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith,
        names: Scope,
        function: str,
    ) -> None:
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                target = name_of(item.optional_vars) if item.optional_vars else ""
                self._calls(item.context_expr, names, target, function)
        else:
            header = node.test if isinstance(node, ast.While) else node.iter
            self._calls(header, names, "", function)
        self._block(node.body, names, function)

    def _branches(self, node: ast.If, names: Scope, function: str) -> None:
        try:
            is_true = bool(value_of(node.test, names))
        except Unknown:
            other = names.inner()
            self._block(node.orelse, other, function)
            self._block(node.body, names, function)
            names.add_missing(other)
            return
        self._block(node.body if is_true else node.orelse, names, function)

    def _class(self, node: ast.ClassDef, names: Scope) -> None:
        inner = names.inner()
        for name, (value, _) in _class_defaults(node, names).items():
            if not isinstance(value, Unknown):
                names[f"{node.name}.{name}"] = self._chosen(name, value)
                inner[f"self.{name}"] = names[f"{node.name}.{name}"]
        self._block(node.body, inner, node.name)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Scope, owner: str
    ) -> None:
        inner = names.inner()
        positional = [*node.args.posonlyargs, *node.args.args]
        defaults = node.args.defaults
        for argument, default in zip(positional[len(positional) - len(defaults) :], defaults,
                                     strict=True):  # fmt: skip
            self._bind(inner, argument.arg, default, names)
        for argument, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if value is not None:
                self._bind(inner, argument.arg, value, names)
        is_method = bool(owner) and bool(positional) and positional[0].arg in ("self", "cls")
        if is_method:
            positional = positional[1:]
        call, known = self.bound.get(owner if node.name == "__init__" else node.name, (None, None))
        if call is not None:
            around = names if known is None else known
            for argument, given in zip(positional, call.args, strict=False):
                self._bind(inner, argument.arg, given, around)
            for keyword in call.keywords:
                if keyword.arg:
                    self._bind(inner, keyword.arg, keyword.value, around)
        inner.update({k: v for k, v in self.script.given.items() if k in inner})
        self._block(node.body, inner, node.name)
        # what a function sets is the best guess for a name that nothing else sets
        names.add_missing(inner)

    def _bind(self, inner: Scope, name: str, node: ast.expr, names: Mapping[str, Any]) -> None:
        try:
            inner[name] = value_of(node, names)
        except Unknown:
            if name not in self.script.given:
                inner.setdefault(name, Unknown(name))
            if isinstance(inner.get(name), Unknown):
                inner.pop(name)

    def _assign(
        self,
        node: ast.Assign | ast.AnnAssign | ast.AugAssign,
        names: Scope,
        function: str,
    ) -> None:
        if node.value is None:
            return
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        self._calls(node.value, names, name_of(targets[0]), function)
        if isinstance(node, ast.AugAssign):
            names.pop(name_of(node.target), None)
            return
        for target in targets:
            self._set(target, node.value, names)
        self._environment_arguments(name_of(targets[0]), node.value, names)

    def _environment_arguments(self, target: str, node: ast.expr, names: Scope) -> None:
        """ElegantRL's Config takes `env_args` over as attributes: args.max_step."""
        if not isinstance(node, ast.Call) or not name_of(node.func).endswith(
            ("Config", "Arguments")
        ):
            return
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            try:
                table = value_of(argument, names)
            except Unknown:
                continue
            if isinstance(table, dict) and "state_dim" in table:
                names.update({f"{target}.{key}": value for key, value in table.items()})

    def _set(self, target: ast.expr, node: ast.expr, names: Scope) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(node, ast.Tuple | ast.List) and len(node.elts) == len(target.elts):
                for one, value in zip(target.elts, node.elts, strict=True):
                    self._set(one, value, names)
            return
        if isinstance(target, ast.Subscript):
            self._set_item(target, node, names)
            return
        name = name_of(target)
        if not name or name in self.script.given or name.split(".")[-1] in self.script.given:
            return
        if isinstance(node, ast.Name) and node.id in self.script.aliases:
            # model_class = DQN
            self.script.aliases[name] = self.script.aliases[node.id]
        try:
            names[name] = value_of(node, names)
        except Unknown:
            # an environment variable or a flag with a default elsewhere keeps it
            if isinstance(node, ast.Call):
                names.pop(name, None)

    def _set_item(self, target: ast.Subscript, node: ast.expr, names: Scope) -> None:
        table = names.get(name_of(target.value))
        if not isinstance(table, dict):
            return
        try:
            key = value_of(target.slice, names)
            value = value_of(node, names)
            if not _holds(value, table):
                table[key] = value
        except (Unknown, TypeError):
            return

    def _calls(self, node: ast.AST, names: Scope, target: str, function: str) -> None:
        known = names.now()
        for inner in ast.walk(node):
            if not isinstance(inner, ast.Call):
                continue
            name = self._full_name(inner.func)
            if not name or len(self.script.calls) >= MAX_CALLS:
                continue
            is_whole = inner is node
            self.script.calls.append(Call(name, inner, known, target if is_whole else "", function))

    def _full_name(self, node: ast.expr) -> str:
        name = name_of(node)
        if not name and isinstance(node, ast.Attribute):
            return f".{node.attr}"
        first, dot, rest = name.partition(".")
        return f"{self.script.aliases.get(first, first)}{dot}{rest}"


def _holds(value: Any, table: dict[Any, Any]) -> bool:
    """Whether a value contains this very table: one that contains itself has no end."""
    pending = [value]
    while pending:
        part = pending.pop()
        if part is table:
            return True
        if isinstance(part, dict | list | tuple):
            pending += part.values() if isinstance(part, dict) else part
    return False


def _class_defaults(node: ast.ClassDef, names: Mapping[str, Any]) -> dict[str, tuple[Any, int]]:
    found: dict[str, tuple[Any, int]] = {}
    for statement in node.body:
        target: ast.expr
        if isinstance(statement, ast.AnnAssign):
            target, value = statement.target, statement.value
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        else:
            continue
        if isinstance(target, ast.Name) and value is not None:
            try:
                found[target.id] = (value_of(value, names), statement.lineno)
            except Unknown as unknown:
                found[target.id] = (unknown, statement.lineno)
    return found


def _option_name(node: ast.Call) -> str:
    options = [
        part.value
        for part in node.args
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    destination = next(
        (k.value.value for k in node.keywords
         if k.arg == "dest" and isinstance(k.value, ast.Constant)), None
    )  # fmt: skip
    if isinstance(destination, str):
        return destination
    long = [option for option in options if option.startswith("--")] or options
    return long[0].lstrip("-").replace("-", "_") if long else ""
