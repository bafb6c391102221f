"""Facts of types, read without running code of their metaclasses; functions cached per type.

A metaclass may define `__hash__`, `__eq__`, `__getattribute__` and properties named like the fields
below. So fields are read through the descriptors of `type` itself, and types are compared by
identity: no set or dictionary of ours has a class of the program as a key.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from weakref import ref

Answer = TypeVar("Answer")

LONGEST_NAME = 200  # of a class, module, function or attribute; longer names are cut

_NAME: Any = type.__dict__["__name__"]
_QUALNAME: Any = type.__dict__["__qualname__"]
_MODULE: Any = type.__dict__["__module__"]
_MRO: Any = type.__dict__["__mro__"]
_DICT: Any = type.__dict__["__dict__"]
_FLAGS: Any = type.__dict__["__flags__"]
_BASIC_SIZE: Any = type.__dict__["__basicsize__"]
_ITEM_SIZE: Any = type.__dict__["__itemsize__"]
_WEAKREF_OFFSET: Any = type.__dict__["__weakrefoffset__"]
_DICT_OFFSET: Any = type.__dict__["__dictoffset__"]


def ancestors(kind: type) -> tuple[type, ...]:
    """The method resolution order, without asking the metaclass."""
    return _MRO.__get__(kind) or ()


def namespace_of(kind: type) -> Mapping[str, Any]:
    """The attributes that a class itself defines."""
    found: Mapping[str, Any] = _DICT.__get__(kind)
    return found


def flags_of(kind: type) -> int:
    """Py_TPFLAGS_... of a type."""
    flags: int = _FLAGS.__get__(kind)
    return flags


def basic_size(kind: type) -> int:
    """Bytes of an instance without items, dictionary and header."""
    size: int = _BASIC_SIZE.__get__(kind)
    return size


def item_size(kind: type) -> int:
    """Bytes of one item, for types whose instances differ in size, as tuples do; else 0."""
    size: int = _ITEM_SIZE.__get__(kind)
    return size


def has_items(kind: type) -> bool:
    """Whether instances differ in size, as tuples do."""
    return item_size(kind) != 0


def has_dict(kind: type) -> bool:
    """Whether instances have attributes in a dictionary."""
    return bool(_DICT_OFFSET.__get__(kind))


def bookkeeping_bytes(kind: type) -> int:
    """Bytes in the body of an instance for the pointers to its dictionary and weak references."""
    offsets: tuple[int, int] = (_DICT_OFFSET.__get__(kind), _WEAKREF_OFFSET.__get__(kind))
    return sum(8 for offset in offsets if offset > 0)


def short(name: str) -> str:
    """A name of the program, cut to a readable length."""
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "…"


def bare_name(kind: type) -> str:
    """`Module` of torch.nn.modules.module.Module."""
    return short(_NAME.__get__(kind))


def module_of(kind: type) -> str:
    """The module a class says it was defined in; '' if it is not a string."""
    try:
        module = _MODULE.__get__(kind)
    except AttributeError:
        return ""
    return short(module) if type(module) is str else ""


def qualified_name(kind: type) -> str:
    """`Outer.Inner` for a class within a class."""
    return short(_QUALNAME.__get__(kind))


def type_name(kind: type) -> str:
    """`package.module.Class`, without `builtins.`"""
    known, text = _named_types.get(id(kind)), _type_names.get(id(kind))
    # another thread may be between the two: the agent's and the program's both take snapshots
    if known is not None and text is not None and known() is kind:
        return text
    module = module_of(kind)
    name = qualified_name(kind)
    text = name if module in ("", "builtins") else f"{module}.{name}"
    if len(_type_names) >= _MOST_TYPE_NAMES:
        _named_types.clear()
        _type_names.clear()
    # the name first: who finds the type finds its name
    _type_names[id(kind)] = text
    _named_types[id(kind)] = ref(kind)
    return text


# a program with torch has thousands of types, and each snapshot names all of them
_type_names: dict[int, str] = {}
_named_types: dict[int, ref[type]] = {}
_MOST_TYPE_NAMES = 10_000


_forget: list[Callable[[], None]] = []


def once_a_type(function: Callable[[type[Any]], Answer]) -> Callable[[type[Any]], Answer]:
    """Remember the answer for each class until `forget_types`."""
    # the class is kept beside its result: no other class can get its address meanwhile
    answers: dict[int, tuple[type, Answer]] = {}

    def answer(kind: type[Any]) -> Answer:
        known = answers.get(id(kind))
        if known is None:
            known = answers[id(kind)] = (kind, function(kind))
        return known[1]

    _forget.append(answers.clear)
    return answer


@once_a_type
def package_and_name(kind: type) -> tuple[str, str]:
    """('torch', 'Module'): top-level package and bare class name."""
    return module_of(kind).partition(".")[0], bare_name(kind)


def forget_types() -> None:
    """Empty every cache keyed by class, so that a snapshot keeps no class alive."""
    for clear in _forget:
        clear()


def kept_while_reading() -> list[Any]:
    """A list that is empty after each snapshot."""
    kept: list[Any] = []
    _forget.append(kept.clear)
    return kept
