"""Who calls Keras's `predict` and `fit`: the user's functions, counted.

Both are meant for many rows at once. Called with one observation in every environment step,
`predict` builds a data pipeline and its graphs each time.
"""

import functools
import sys
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

from ramledger.interpreter.loaded_modules import attributes_of, namespace, set_attribute, text_of
from ramledger.interpreter.user_code import is_user_file
from ramledger.phases.call_stack import name_of

# module -> class: Keras 3 on TensorFlow, Keras 2
MODULES = {
    "keras.src.backend.tensorflow.trainer": "TensorFlowTrainer",
    "keras.src.engine.training": "Model",
    "tf_keras.src.engine.training": "Model",
}
_METHODS = ("predict", "fit")
_MARK = "__ramledger_counted__"
_MAX_CALLERS = 20
_MAX_DEPTH = 40

CALLS: Counter[tuple[str, str]] = Counter()  # (method, caller)


def count_calls(module: types.ModuleType) -> None:
    """Count the callers of a trainer's methods; called when its module has been imported."""
    owner = namespace(module).get(MODULES.get(text_of(module, "__name__"), ""))
    for method in _METHODS:
        function = attributes_of(owner).get(method)
        if type(function) is types.FunctionType and not hasattr(function, _MARK):
            set_attribute(owner, method, _counted(function, method))


def callers() -> dict[str, dict[str, int]]:
    """Calls so far by method, then by the user's function: {'predict': {'env.py:Env.step': 900}}"""
    found: dict[str, dict[str, int]] = {}
    for (method, caller), count in list(CALLS.items()):
        found.setdefault(method, {})[caller] = count
    return found


def _counted(function: Callable[..., Any], method: str) -> Any:
    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        caller = (method, _caller(sys._getframe(1)))
        if caller in CALLS or len(CALLS) < _MAX_CALLERS:
            CALLS[caller] += 1
        return function(*args, **kwargs)

    setattr(counted, _MARK, True)
    return counted


def _caller(frame: types.FrameType | None) -> str:
    """The nearest caller that is the user's code."""
    for _ in range(_MAX_DEPTH):
        if frame is None:
            break
        code = frame.f_code
        if is_user_file(code.co_filename):
            return f"{name_of(code).partition(':')[0]}:{code.co_qualname}"
        frame = frame.f_back
    return "a library"
