"""What TensorFlow's graphs cost: heap that appeared while functions were traced.

Graphs are C++ objects of unknown size. So the growth of the heap during tracing is measured, as
for imports; when a graph is gone, the mean cost of a graph is subtracted.
"""

import functools
import threading
import types
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ramledger.interpreter.loaded_modules import namespace, set_attribute
from ramledger.measure.allocators import malloc, pymalloc

MODULE = "tensorflow.python.eager.polymorphic_function.tracing_compilation"
ACCOUNT = "tensorflow/graphs"
_TRACE = "_create_concrete_function"
_MARK = "__ramledger_measured__"


@dataclass(slots=True)
class GraphCosts:
    """Sums over all traces; a nested trace is part of the outer one."""

    traces: int = 0
    native_bytes: int = 0
    python_bytes: int = 0

    def living(self, graphs: int) -> tuple[int, int]:
        """(native, Python) bytes of that many live graphs."""
        share = min(1.0, graphs / self.traces) if self.traces else 0.0
        return round(self.native_bytes * share), round(self.python_bytes * share)


COSTS = GraphCosts()
_tracing = threading.local()


def measure_traces(module: types.ModuleType) -> None:
    """Measure every trace from now on; called once TensorFlow is imported."""
    function = namespace(module).get(_TRACE)
    if type(function) is not types.FunctionType or hasattr(function, _MARK):
        return

    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        COSTS.traces += 1
        if getattr(_tracing, "depth", 0):
            return function(*args, **kwargs)
        _tracing.depth = 1
        before = _in_use()
        try:
            return function(*args, **kwargs)
        finally:
            _tracing.depth = 0
            after = _in_use()
            COSTS.native_bytes += max(0, after[0] - before[0])
            COSTS.python_bytes += max(0, after[1] - before[1])

    setattr(traced, _MARK, True)
    set_attribute(module, _TRACE, traced)


def _in_use() -> tuple[int, int]:
    with suppress(Exception):
        return malloc.in_use_bytes() or 0, pymalloc.used_bytes() or 0
    return 0, 0
