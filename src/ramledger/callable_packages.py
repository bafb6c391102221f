"""Packages that are functions as well: `ramledger.plan("train.py")`, `ramledger.plan.budget`.

Importing any module of a package puts the package where the function would be.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        home, _, name = _FUNCTIONS[self.__name__].rpartition(".")
        return getattr(import_module(f"{self.__name__}.{home}"), name)(*arguments, **options)


_FUNCTIONS: dict[str, str] = {}


def make_callable(package: str, function: str) -> None:
    """Let a call of `package` be one of `function`, `module.name` in it, loaded then."""
    _FUNCTIONS[package] = function
    sys.modules[package].__class__ = _CallablePackage
