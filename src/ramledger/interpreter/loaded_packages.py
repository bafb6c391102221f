"""What a process has imported of the standard library and of installed packages, as plain data.

Enough to repeat the same imports elsewhere; nothing of the user's own modules is told.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from ramledger.interpreter.loaded_modules import text_of
from ramledger.interpreter.user_code import is_user_file

_SITES = ("/site-packages", "/dist-packages")
_NEVER = frozenset({"ramledger", "__main__", "__mp_main__", "sitecustomize", "usercustomize"})
# importing these shows or starts something
_SHOWS = frozenset({"antigravity", "this", "idlelib", "turtledemo", "test"})
_NAME = re.compile(r"[^\W\d]\w*(\.\w+)*\Z")
_LONGEST_NAME = 200
_MOST_MODULES = 50_000


@dataclass(frozen=True, slots=True)
class LoadedPackages:
    """The interpreter of a process, and the modules that can be imported again, oldest first."""

    executable: str
    python: str
    sites: tuple[str, ...]  # folders of installed packages, in the order of `sys.path`
    modules: tuple[str, ...]
    versions: Mapping[str, str]  # by package, "" where it states none

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What a process has told; ValueError for anything but names and paths."""
        sites, modules = _texts(data.get("sites")), _texts(data.get("modules"))
        versions = data.get("versions")
        if not isinstance(versions, dict) or not all(map(_can_repeat, modules)):
            raise ValueError("not the imports of a process")
        return cls(
            executable=str(data.get("executable", "")),
            python=str(data.get("python", "")),
            sites=sites,
            modules=modules,
            versions=dict(zip(_texts([*versions]), _texts([*versions.values()]), strict=True)),
        )


def loaded_packages() -> LoadedPackages:
    """Read `sys.modules` of this process; runs no code of its modules."""
    modules: list[str] = []
    versions: dict[str, str] = {}
    for name, module in list(sys.modules.items())[:_MOST_MODULES]:
        if type(name) is not str or not _can_repeat(name):
            continue
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            modules.append(name)
            continue
        file = text_of(module, "__file__")
        if file and not is_user_file(file):
            modules.append(name)
            versions.setdefault(top, text_of(sys.modules.get(top), "__version__"))
    return LoadedPackages(
        executable=sys.executable or "",
        python=sys.version,
        sites=tuple(p for p in list(sys.path) if type(p) is str and p.endswith(_SITES)),
        modules=tuple(modules),
        versions=versions,
    )


def _can_repeat(name: str) -> bool:
    top = name.partition(".")[0]
    return (
        len(name) <= _LONGEST_NAME
        and _NAME.match(name) is not None
        and top not in _NEVER | _SHOWS
        and not name.endswith(".__main__")
    )


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("not a list of texts")
    return tuple(value)
