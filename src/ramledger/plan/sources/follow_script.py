"""Follows a script's names in order: constants, defaults, arguments, scopes.

Assignments are followed function by function; a call of a function by its name hands its
arguments over. What cannot be known without running the script stays unknown, by name.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.sources.expressions import Unknown, is_known, name_of, value_of
from ramledger.plan.sources.known_objects import Record
from ramledger.plan.sources.script_names import Scope
from ramledger.plan.sources.script_scopes import Call, Script
from ramledger.plan.sources.settings_files import hydra_config, loaded_file, opened_file

MAX_CALLS = 20_000
_MAX_TURNS = 200  # of all loops that are followed value by value
_LAYERS = ("Linear", "Conv2d", "Conv1d", "Dense", "Conv2D", "LSTM", "GRU")
_HOLDERS = ("args", "arg", "opt", "opts", "config", "cfg", "params", "flags")


def follow(script: Script, imported: Mapping[str, Any], callers: Sequence[Script]) -> None:
    """Follow a script's names from the top; `callers` call its functions and classes."""
    try:
        Walk(script, imported, callers).run()
    except RecursionError:
        raise ConfigError(f"{script.path}: nested too deeply", hint="simplify it") from None


class Walk:
    """Follows statements in order; functions are entered where they are defined."""

    def __init__(
        self, script: Script, imported: Mapping[str, Any], callers: Sequence[Script]
    ) -> None:
        self.script = script
        self.imported = imported
        self.owner = ""
        self.turns = _MAX_TURNS
        self.bound: dict[str, tuple[ast.Call, Mapping[str, Any] | None]] = {}
        for caller in callers:
            for call in caller.calls:
                self.bound.setdefault(call.last, (call.node, call.names))

    def run(self) -> None:
        script = self.script
        script.calls, script.arguments, script.aliases = [], {}, {}
        for node in ast.walk(script.tree):
            self._imports(node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self.bound.setdefault(node.func.id, (node, None))
        names = Scope()
        names.update(self.imported)
        names.update(script.given)
        for module in script.modules:
            for name, found in module.arguments.items():
                script.arguments.setdefault(name, found)
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
        elif isinstance(node, ast.ImportFrom) and node.module:
            if not node.level:
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

    def _parsed_arguments(self) -> Record:
        return Record({name: value for name, (value, _) in self.script.arguments.items()})

    def _chosen(self, name: str, value: Any) -> Any:
        return self.script.given.get(name, value)

    def _spread_arguments(self, names: Scope) -> None:
        for name, (value, _) in self.script.arguments.items():
            if not isinstance(value, Unknown):
                for holder in _HOLDERS:
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
                if target and isinstance(item.context_expr, ast.Call):
                    opened = opened_file(item.context_expr, names)
                    names.update({target: opened} if opened is not None else {})
        else:
            header = node.test if isinstance(node, ast.While) else node.iter
            self._calls(header, names, "", function)
            if isinstance(node, ast.For) and self._unrolled(node, names, function):
                return
        self._block(node.body, names, function)

    def _unrolled(self, node: ast.For, names: Scope, function: str) -> bool:
        """A short loop that makes layers, followed once for each of its values."""
        makes_layers = any(
            isinstance(part, ast.Call) and name_of(part.func).rpartition(".")[2] in _LAYERS
            for statement in node.body
            for part in ast.walk(statement)
        )
        values = self._value(node.iter, names) if makes_layers else None
        if not isinstance(values, list | tuple) or len(values) > self.turns:
            return False
        self.turns -= len(values)
        for value in values:
            targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
            parts = value if len(targets) > 1 and isinstance(value, tuple | list) else [value]
            for target, part in zip(targets, parts, strict=False):
                inner = target.elts if isinstance(target, ast.Tuple) else [target]
                several = part if len(inner) > 1 and isinstance(part, tuple | list) else [part]
                for one, known in zip(inner, several, strict=False):
                    names.update({name_of(one): known} if is_known(known) else {})
            self._block(node.body, names, function)
        return True

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
        known = Record()
        for base in node.bases:
            inherited = names.get(name_of(base))
            known.update(inherited if isinstance(inherited, Record) else {})
        inner.update({f"self.{name}": value for name, value in known.items()})
        for name, (value, _) in _class_defaults(node, names).items():
            if not isinstance(value, Unknown):
                names[f"{node.name}.{name}"] = self._chosen(name, value)
                known[name] = inner[f"self.{name}"] = names[f"{node.name}.{name}"]
        self._constructor_keywords(node, names, inner)
        around, self.owner = self.owner, node.name
        self._block(node.body, inner, node.name)
        self.owner = around
        for name in inner.set_here():
            if name.startswith("self.") and name.count(".") == 1 and name in inner:
                known[name.removeprefix("self.")] = inner[name]
        if known:
            names[node.name] = known

    def _constructor_keywords(self, node: ast.ClassDef, names: Scope, inner: Scope) -> None:
        """Fields without a default, as in `QNetwork(action_dim=4)` of a dataclass."""
        call, known = self.bound.get(node.name, (None, None))
        fields = [s.target for s in node.body if isinstance(s, ast.AnnAssign) and s.value is None]
        wanted = [field.id for field in fields if isinstance(field, ast.Name)]
        for position, name in enumerate(wanted if call is not None else ()):
            around = names if known is None else known
            for keyword in call.keywords if call is not None else ():
                if keyword.arg == name:
                    self._bind(inner, f"self.{name}", keyword.value, around)
            if call is not None and position < len(call.args):
                self._bind(inner, f"self.{name}", call.args[position], around)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Scope, owner: str
    ) -> None:
        inner = names.inner()
        positional = [*node.args.posonlyargs, *node.args.args]
        for argument in (*positional, *node.args.kwonlyargs):
            # def train(config: TrainingConfig): its defaults, unless a call says otherwise
            known = names.get(name_of(argument.annotation)) if argument.annotation else None
            inner.update({argument.arg: known} if isinstance(known, Record) else {})
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
                else:
                    self._bind_table(inner, keyword.value, around)
        inner.update({k: v for k, v in self.script.given.items() if k in inner})
        self._config_of(node, inner)
        self._block(node.body, inner, node.name)
        self._returned(node, names, inner)
        # what a function sets is the best guess for a name that nothing else sets
        names.add_missing(inner)

    def _bind_table(self, inner: Scope, node: ast.expr, names: Mapping[str, Any]) -> None:
        """`Agent(**settings)`."""
        try:
            table = value_of(node, names)
        except Unknown:
            return
        if isinstance(table, dict):
            known = {k: v for k, v in table.items() if not isinstance(v, Unknown)}
            inner.update({k: v for k, v in known.items() if isinstance(k, str)})

    def _bind(self, inner: Scope, name: str, node: ast.expr, names: Mapping[str, Any]) -> None:
        try:
            inner[name] = value_of(node, names)
        except Unknown:
            if name not in self.script.given:
                inner.setdefault(name, Unknown(name))
            if isinstance(inner.get(name), Unknown):
                inner.pop(name)

    def _config_of(self, node: ast.FunctionDef | ast.AsyncFunctionDef, inner: Scope) -> None:
        """`@hydra.main(config_path="conf", config_name="dqn")` hands a file over."""
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and name_of(decorator.func) == "hydra.main":
                found = hydra_config(self.script.path, decorator, inner)
                if found is not None and node.args.args:
                    inner[node.args.args[0].arg] = found

    def _returned(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Scope, inner: Scope
    ) -> None:
        """A config or an environment that a function returns; numbers depend on its arguments."""
        for statement in node.body:
            if isinstance(statement, ast.Return) and statement.value is not None:
                value = self._value(statement.value, inner)
                if isinstance(value, Record):
                    names[f"{node.name}()"] = value

    def _value(self, node: ast.expr, names: Scope) -> Any:
        """A value; parsed arguments and files of settings are known as well. None if unknown."""
        try:
            return value_of(node, names)
        except Unknown:
            if not isinstance(node, ast.Call):
                return None
        if name_of(node.func).rpartition(".")[2] in ("parse_args", "parse_known_args"):
            return self._parsed_arguments()
        return loaded_file(self.script.path, node, names)

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
            self._set_several(target, node, names)
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
        value = self._value(node, names)
        if value is not None or (isinstance(node, ast.Constant) and node.value is None):
            self._put(name, value, names)
        elif isinstance(node, ast.Call):
            # an environment variable or a flag with a default elsewhere keeps it
            names.pop(name, None)

    def _set_several(self, target: ast.Tuple | ast.List, node: ast.expr, names: Scope) -> None:
        if isinstance(node, ast.Tuple | ast.List) and len(node.elts) == len(target.elts):
            for one, value in zip(target.elts, node.elts, strict=True):
                self._set(one, value, names)
        elif isinstance(node, ast.Call) and target.elts:
            # env, env_params = gymnax.make("CartPole-v1")
            made = self._value(node, names)
            if isinstance(made, Record) and "observation_space" in made:
                self._set(target.elts[0], node, names)

    def _put(self, name: str, value: Any, names: Scope) -> None:
        names[name] = value
        if isinstance(value, Record):
            value.update({k: v for k, v in self.script.given.items() if k in value})
            for attribute in value:
                # what was only a guess by the holder's name
                if f"{name}.{attribute}" in names:
                    names[f"{name}.{attribute}"] = value[attribute]
        holder = names.get(name.rpartition(".")[0])
        if isinstance(holder, Record) and not _holds(value, holder):
            holder[name.rpartition(".")[2]] = value

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
            self.script.calls.append(
                Call(name, inner, known, target if is_whole else "", function, self.owner)
            )

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
