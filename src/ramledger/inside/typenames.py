"""Names of types, read without running code of their metaclasses, and answers kept per type."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

Answer = TypeVar("Answer")

_NAME: Any = type.__dict__["__name__"]
_QUALNAME: Any = type.__dict__["__qualname__"]
_MODULE: Any = type.__dict__["__module__"]


def module_of(kind: type) -> str:
    """The module a class says it was defined in; '' where it says nothing sensible."""
    try:
        module = _MODULE.__get__(kind)
    except AttributeError:
        return ""
    return module if isinstance(module, str) else ""


def package_and_name(kind: type) -> tuple[str, str]:
    """('torch', 'Module'): top-level package and bare class name."""
    return module_of(kind).partition(".")[0], _NAME.__get__(kind)


def type_name(kind: type) -> str:
    """`package.module.Class`, without `builtins.`"""
    module = module_of(kind)
    name: str = _QUALNAME.__get__(kind)
    return name if module in ("", "builtins") else f"{module}.{name}"


_forget: list[Callable[[], None]] = []


def once_a_type(function: Callable[[type[Any]], Answer]) -> Callable[[type[Any]], Answer]:
    """Remember the answer for each class until `forget_types`."""
    cached = lru_cache(maxsize=None)(function)
    _forget.append(cached.cache_clear)
    return cast(Callable[[type[Any]], Answer], cached)


def forget_types() -> None:
    """Empty every cache keyed by class: a snapshot keeps no class alive."""
    for clear in _forget:
        clear()
