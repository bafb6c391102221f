"""CPython's own books of the calling process: the arenas of its small-object allocator."""

import ctypes
import gc
import sys
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ramledger.measure.allocators.memstream import printed_by

_USED = "# bytes in allocated blocks"
_AVAILABLE = "# bytes in available blocks"
_GC_HEADER_BYTES = 16
_LOST = "# bytes lost to "


@dataclass(frozen=True, slots=True)
class PythonBooks:
    """arena = used + free + overhead, to the byte; objects above 512 bytes are malloc's.

    `unused_pool_bytes` is the part of free in pools that hold no block: pages never touched in
    a new arena, which are not resident, or pages left by objects that are gone, which are.
    """

    arenas: int
    arena_bytes: int
    used_bytes: int
    free_bytes: int
    unused_pool_bytes: int
    overhead_bytes: int
    blocks: int


def python_books() -> PythonBooks | None:
    """The books of this process; None where CPython has none, and `why_unknown` says why."""
    return parse_statistics(_statistics())


def used_bytes() -> int | None:
    """`used_bytes` of the books alone, in half the time."""
    _, found, rest = _statistics().partition(_USED)
    number = rest.partition("\n")[0].strip(" =").replace(",", "")
    return int(number) if found and number.isdecimal() else None


def why_unknown() -> str:
    """One sentence why there are no books; "" if there are."""
    if python_books() is not None:
        return ""
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} does not use CPython's object allocator"
    text = _statistics()
    if not text:
        return "Python objects go straight to malloc (PYTHONMALLOC=malloc), which counts them"
    if _USED not in text:
        return "Python objects are in mimalloc, which keeps no arenas that could be counted"
    return "the statistics of this CPython are printed in a form that is not known"


def blocks() -> int:
    """Blocks in use in CPython's object allocator; 0 where it counts none."""
    return sys.getallocatedblocks()


def _statistics() -> str:
    try:
        # pythonapi keeps the GIL, which guards the walk over the pools
        function = ctypes.pythonapi._PyObject_DebugMallocStats
    except (AttributeError, ValueError):
        return ""
    _, text = printed_by(lambda stream: int(function(ctypes.c_void_p(stream))))
    return text


def parse_statistics(text: str) -> PythonBooks | None:
    """Read what sys._debugmallocstats prints, by the labels of its lines."""
    sums: dict[str, int] = {}
    arenas = arena_bytes = unused_pool_bytes = 0
    # a second table, of the map over the arenas, follows the first "Total": it lies outside them
    for line in text.partition("\nTotal ")[0].splitlines():
        label, equals, value = line.partition("=")
        number = value.strip().replace(",", "")
        if not equals or not number.isdecimal():
            continue
        if "bytes/arena" in label:
            arenas, arena_bytes = int(label.split()[0]), int(number)
        elif "unused pools" in label:
            unused_pool_bytes = int(number)
        else:
            sums[label.strip()] = int(number)
    if not arena_bytes or _USED not in sums:
        return None
    return PythonBooks(
        arenas=arenas,
        arena_bytes=arena_bytes,
        used_bytes=sums[_USED],
        free_bytes=sums.get(_AVAILABLE, 0) + unused_pool_bytes,
        unused_pool_bytes=unused_pool_bytes,
        overhead_bytes=sum(size for label, size in sums.items() if label.startswith(_LOST)),
        blocks=_blocks_in_use(text),
    )


def _blocks_in_use(text: str) -> int:
    """The sum of the column "blocks in use" in the table of size classes."""
    rows = (line.split() for line in text.splitlines())
    return sum(int(row[3]) for row in rows if len(row) == 5 and all(map(str.isdecimal, row)))


@dataclass(frozen=True, slots=True)
class CodeBooks:
    """Classes and compiled code that the loaded modules hold: a part of what is in use.

    `text_bytes` is names, docstrings and string constants of that code. CPython lists its
    interned strings nowhere; most of them are these names.
    """

    classes: int
    class_bytes: int
    code_objects: int
    code_bytes: int
    text_bytes: int


def code_books() -> CodeBooks:
    """What classes and code weigh: a third of a second with all of torch loaded, so not often.

    Functions that only live in closures, decorators or instances are not found: 4 % of the code.
    """
    seen = _Seen()
    class_bytes = _count_classes(seen)
    for module in list(sys.modules.values()):
        if issubclass(type(module), ModuleType):
            # not vars(): the attribute access would load a lazy module
            _find_code(object.__getattribute__(module, "__dict__"), seen)
    return CodeBooks(
        classes=len(seen.classes),
        class_bytes=class_bytes,
        code_objects=len(seen.code),
        code_bytes=seen.code_bytes,
        text_bytes=sum(map(sys.getsizeof, seen.texts)),
    )


class _Seen:
    """What was counted already: code by identity, texts by value, as interning does."""

    def __init__(self) -> None:
        self.classes: set[int] = set()
        self.code: set[int] = set()
        self.texts: set[str] = set()
        self.code_bytes = 0


def _find_code(namespace: dict[str, object], seen: _Seen) -> None:
    """Count the code of a namespace's functions, nested functions included."""
    functions = map(_unwrapped, list(namespace.values()))
    pending = [value.__code__ for value in functions if type(value) is FunctionType]
    while pending:
        code = pending.pop()
        if id(code) in seen.code:
            continue
        seen.code.add(id(code))
        constants = code.co_consts
        parts = (code, constants, code.co_names, code.co_linetable, code.co_exceptiontable)
        seen.code_bytes += sum(map(sys.getsizeof, parts))
        seen.texts.update(code.co_names)
        seen.texts.update([item for item in constants if type(item) is str])
        pending += [item for item in constants if type(item) is CodeType]


def _unwrapped(value: Any) -> object:
    kind = type(value)
    if kind is staticmethod or kind is classmethod:
        return value.__func__
    return value.fget if kind is property else value


def _count_classes(seen: _Seen) -> int:
    """Count all classes and the code of their methods; the bytes of the classes themselves."""
    class_bytes = 0
    pending: list[type] = [object]
    while pending:
        cls = pending.pop()
        if id(cls) in seen.classes:
            continue
        seen.classes.add(id(cls))
        pending += type.__subclasses__(cls)
        if not gc.is_tracked(cls):
            continue  # a static type is data of its library
        class_bytes += type.__sizeof__(cls) + _GC_HEADER_BYTES
        for namespace in gc.get_referents(cls):
            if type(namespace) is dict:
                class_bytes += sys.getsizeof(namespace)
                _find_code(namespace, seen)
    return class_bytes
