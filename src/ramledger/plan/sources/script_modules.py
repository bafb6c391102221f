"""A script and its own modules, followed together: constants, configs and classes next door.

Three rounds: a call in one module tells the next round what another module's function is given.
"""

import ast
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.sources.follow_script import follow
from ramledger.plan.sources.known_objects import Record
from ramledger.plan.sources.script_scopes import Script, parse_script

MAX_MODULES = 50
MAX_MODULES_BYTES = 400 << 10  # of all of them together
_ROUNDS = 3
_MAX_PARENTS = 2


def load_script(path: str, given: Mapping[str, Any]) -> Script:
    """Parse a script with the modules of its own that it imports, and follow all their names."""
    main = parse_script(path, given)
    files = _Files(main)
    main.modules = files.modules
    # what is imported comes first, so that its constants are known
    order = [*reversed(files.modules), main]
    for _ in range(_ROUNDS):
        callers = [main, *files.modules]
        earlier = [_Earlier(script) for script in callers]
        for script in order:
            follow(script, files.imported(script), [before.script for before in earlier])
    return main


class _Earlier:
    """The calls of the round before, which the next one replaces in the script itself."""

    def __init__(self, script: Script) -> None:
        self.script = Script(script.path, script.tree, script.given, calls=script.calls)


class _Files:
    """Modules of the script's own by file, found breadth first."""

    def __init__(self, main: Script) -> None:
        self.modules: list[Script] = []
        self._by_path: dict[str, Script] = {os.path.realpath(main.path): main}
        self._left_bytes = MAX_MODULES_BYTES
        self._roots = _roots(main.path)
        pending = [main]
        while pending:
            script = pending.pop(0)
            for path in self._imported_files(script):
                real = os.path.realpath(path)
                if real not in self._by_path and self._has_room(path):
                    found = self._parsed(path, main.given)
                    if found is not None:
                        self._by_path[real] = found
                        self.modules.append(found)
                        pending.append(found)

    def _has_room(self, path: str) -> bool:
        if len(self.modules) >= MAX_MODULES:
            return False
        size = os.path.getsize(path)
        if size > self._left_bytes:
            return False
        self._left_bytes -= size
        return True

    def _parsed(self, path: str, given: Mapping[str, Any]) -> Script | None:
        try:
            return parse_script(path, given)
        except ConfigError:
            return None

    def _imported_files(self, script: Script) -> Iterator[str]:
        for node in _import_statements(script.tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
                yield from (path for name in names if (path := self._file(script, name, 0)))
                continue
            path = self._file(script, node.module or "", node.level)
            if path:
                yield path
            for alias in node.names:
                inner = f"{node.module}.{alias.name}" if node.module else alias.name
                path = self._file(script, inner, node.level)
                if path:
                    yield path

        yield from (path for name in _entry_points(script.tree)
                    if (path := self._file(script, name.partition(":")[0], 0)))  # fmt: skip

    def _file(self, script: Script, name: str, level: int) -> str | None:
        parts = name.split(".") if name else []
        if not all(part.isidentifier() for part in parts):
            return None
        folder = Path(script.path).parent
        if level:
            for _ in range(level - 1):
                folder = folder.parent
        # a relative import has one place; an absolute one is beside the script or above it
        for root in [folder] if level else [Path(script.path).parent, *self._roots]:
            place = root.joinpath(*parts)
            for path in (place.with_suffix(".py") if parts else None, place / "__init__.py"):
                if path is not None and os.path.isfile(path):
                    return str(path)
        return None

    def imported(self, script: Script) -> dict[str, Any]:
        """Names that a script's imports give it, as far as its own modules define them."""
        found: dict[str, Any] = {}
        for node in _import_statements(script.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    module = self._module(script, alias.name, 0)
                    if module is not None:
                        found[alias.asname or alias.name] = _as_record(module)
                continue
            self._imported_from(script, node, found)
        return found

    def _imported_from(self, script: Script, node: ast.ImportFrom, found: dict[str, Any]) -> None:
        source = self._module(script, node.module or "", node.level)
        table = {} if source is None else _as_record(source)
        for alias in node.names:
            if alias.name == "*":
                found.update(table)
                continue
            local = alias.asname or alias.name
            inner = f"{node.module}.{alias.name}" if node.module else alias.name
            module = self._module(script, inner, node.level)
            if alias.name in table:
                found[local] = table[alias.name]
            elif module is not None:
                found[local] = _as_record(module)
            if f"{alias.name}()" in table:
                found[f"{local}()"] = table[f"{alias.name}()"]

    def _module(self, script: Script, name: str, level: int) -> Script | None:
        path = self._file(script, name, level)
        return self._by_path.get(os.path.realpath(path)) if path else None


def _roots(path: str) -> list[Path]:
    folder = Path(path).parent
    found = [folder, folder / "src", *list(folder.resolve().parents)[:_MAX_PARENTS]]
    # a folder above is a root only where a project begins or packages lie
    return [root for index, root in enumerate(found) if index < 2 or _is_project(root)]


def _is_project(folder: Path) -> bool:
    signs = (".git", "pyproject.toml", "setup.py", "requirements.txt", "README.md")
    return any(os.path.exists(folder / sign) for sign in signs)


def _import_statements(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def _entry_points(tree: ast.Module) -> Iterator[str]:
    """`gym.register(id=…, entry_point="envs.snake:SnakeEnv")`."""
    for node in ast.walk(tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            value = getattr(keyword.value, "value", None)
            if keyword.arg == "entry_point" and isinstance(value, str):
                yield value


def _as_record(module: Script) -> Record:
    return Record({name: value for name, value in module.names.items() if "." not in name})
