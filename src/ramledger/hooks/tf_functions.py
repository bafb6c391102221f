"""The graphs of each tf.function, and why it was traced again.

A tf.function keeps a graph for every signature it was called with. Everything is read from its
attributes: nothing is imported and no operation runs.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from ramledger.interpreter.attributes import instance_dict, own_fields
from ramledger.interpreter.type_facts import (
    ancestors,
    bare_name,
    once_a_type,
    package_and_name,
    type_name,
)
from ramledger.phases.call_stack import name_of

MAX_FUNCTIONS = 20
_SEEN_OF_A_CACHE = 64  # newest graphs of a function that are compared
_GRAPH = ("tensorflow", "FuncGraph")
_OPERATION = "tensorflow.python.framework.ops.Operation"
_KERAS = {  # by the method of Keras that made the function
    "make_predict_function": "predict",
    "make_train_function": "fit",
    "make_test_function": "evaluate",
    "_make_function": "fit or evaluate",
}


@once_a_type
def is_traced_function(kind: type) -> bool:
    """Whether instances are what `@tf.function` returns."""
    names = map(package_and_name, ancestors(kind))
    return ("tensorflow", "PolymorphicFunction") in names and bare_name(kind) == "Function"


@once_a_type
def is_graph(kind: type) -> bool:
    """Whether instances are graphs of functions."""
    return _GRAPH in map(package_and_name, ancestors(kind))


def tensorflow_facts(
    functions: Iterable[Any],
    counts: Iterable[tuple[type, int]],
    array_bytes: Mapping[int, int],
) -> dict[str, Any] | None:
    """Counts of graphs and tensors, and the functions with most graphs; None without TensorFlow."""
    rows = [row for row in counts if package_and_name(row[0])[0] == "tensorflow"]
    if not rows:
        return None
    tensors = [row for row in counts if is_eager_tensor(row[0])]
    variables = [row for row in counts if is_variable(row[0])]
    return {
        "graphs": sum(count for kind, count in counts if is_graph(kind)),
        "operations": sum(count for kind, count in rows if type_name(kind) == _OPERATION),
        "eager_tensors": sum(count for _, count in tensors),
        "variables": sum(count for _, count in variables),
        **(
            {
                "eager_bytes": sum(array_bytes.get(id(kind), 0) for kind, _ in tensors),
                "variable_bytes": sum(array_bytes.get(id(kind), 0) for kind, _ in variables),
            }
            if array_bytes
            else {}
        ),  # without `objects`, tensors are not counted
        "functions": _by_name(functions),
    }


@once_a_type
def is_eager_tensor(kind: type) -> bool:
    """Whether instances are tensors with values."""
    return ("tensorflow", "_EagerTensorBase") in map(package_and_name, ancestors(kind))


@once_a_type
def is_variable(kind: type) -> bool:
    """Whether instances are TensorFlow's variables; Keras's hold one each."""
    return ("tensorflow", "BaseResourceVariable") in map(package_and_name, ancestors(kind))


def _by_name(functions: Iterable[Any]) -> list[dict[str, Any]]:
    """Functions with the same code together, those with most graphs first."""
    found: dict[str, dict[str, Any]] = {}
    for function in functions:
        fields = instance_dict(function) or {}
        graphs = _graphs(fields)
        if not graphs:
            continue
        name = _name(fields)
        row = found.setdefault(name, {"name": name, "instances": 0, "graphs": 0, "varies": []})
        row["instances"] += 1
        row["graphs"] += len(graphs)
        if len(graphs) > 1 and not row["varies"]:
            row["varies"] = _varying(graphs)
    largest = sorted(found.values(), key=lambda row: (-row["graphs"], row["name"]))
    return largest[:MAX_FUNCTIONS]


def _graphs(fields: Mapping[str, Any]) -> Mapping[Any, Any]:
    """Concrete functions by signature, as the function's own cache has them."""
    cache = fields.get("_function_cache")
    found = own_fields(cache).get("_primary") if cache is not None else None
    return found if isinstance(found, dict) else {}


def _name(fields: Mapping[str, Any]) -> str:
    function = fields.get("_python_function")
    wrapped = getattr(function, "__wrapped__", function)
    code = getattr(wrapped, "__code__", None)
    if code is None:
        return str(fields.get("_name"))
    for maker, method in _KERAS.items():
        if f".{maker}." in code.co_qualname:
            return f"keras model.{method}"
    return f"{name_of(code).partition(':')[0]}:{code.co_qualname.replace('<locals>.', '')}"


def _varying(graphs: Mapping[Any, Any]) -> list[str]:
    """Arguments that differ between the newest graphs: ['n: Python int', 'x: shape']."""
    newest = list(islice(reversed(list(graphs.values())), _SEEN_OF_A_CACHE))
    seen: dict[str, list[Any]] = {}
    for graph in newest:
        signature = (instance_dict(graph) or {}).get("_function_type")
        for name, parameter in getattr(signature, "parameters", {}).items():
            seen.setdefault(name, []).append(getattr(parameter, "type_constraint", None))
    return [f"{name}: {how}" for name, kinds in seen.items() if (how := _difference(kinds))]


def _difference(kinds: list[Any]) -> str:
    """How the types of one argument differ; '' if they are equal."""
    names = {type(kind).__name__ for kind in kinds}
    if names == {"Literal"}:
        values = [getattr(kind, "value", None) for kind in kinds]
        return f"Python {type(values[0]).__name__}" if len(set(map(repr, values))) > 1 else ""
    if names == {"Weakref"}:
        return "Python object" if len({getattr(k, "_ref_hash", 0) for k in kinds}) > 1 else ""
    if names == {"TensorSpec"}:
        if len({str(kind.shape) for kind in kinds}) > 1:
            return "shape"
        return "dtype" if len({kind.dtype.name for kind in kinds}) > 1 else ""
    return "type" if len(set(map(repr, kinds))) > 1 else ""
