"""Objects of which a script's reader knows the attributes: configs, spaces, arrays, environments.

`dotdict({…}).x`, `gym.make("CartPole-v1").observation_space.shape[0]`, `np.array([1, 2]).shape`.
"""

import ast
import math
from collections.abc import Callable
from typing import Any

from ramledger.plan.formulas.known_environments import known_environment
from ramledger.plan.formulas.spaces import ITEM_BYTES, parse_action, parse_box

Evaluate = Callable[[ast.expr], Any]

_TABLES = (
    "dotdict", "dotDict", "DotDict", "AttrDict", "EasyDict", "edict", "SimpleNamespace",
    "Namespace", "ConfigDict", "Munch", "DotMap", "addict.Dict", "OmegaConf.create",
)  # fmt: skip
_SAME = ("vars", "asdict", "copy", "deepcopy", "cli", "freeze", "FrozenDict", "from_numpy")
_FILLED = ("zeros", "ones", "empty", "full")
_SPACES = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
_MAKERS = ("make", "make_vec", "make_vec_env", "make_env")
# wrappers whose observations are not those of what they wrap
_RESHAPING = (
    "resize", "gray", "stack", "atari", "warp", "pixel", "image", "filter", "crop",
    "onehot", "preprocess", "frame", "rescaleobs", "transformobs",
)  # fmt: skip


class Record(dict[str, Any]):
    """Attributes of one object, by name."""


def array(shape: tuple[int, ...], dtype: str) -> Record:
    """An array or a space of which the shape is known."""
    return Record(shape=shape, dtype=dtype, size=math.prod(shape), ndim=len(shape))


def is_array(value: Any) -> bool:
    return isinstance(value, Record) and isinstance(value.get("shape"), tuple)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array, or of nested lists of numbers."""
    if is_array(value):
        shape: tuple[int, ...] = value["shape"]
        return shape
    if isinstance(value, list | tuple):
        inner = shape_of(value[0]) if value else ()
        return None if inner is None else (len(value), *inner)
    return ()


def dtype_name(node: ast.expr | None, default: str) -> str:
    """`np.uint8`, `torch.float32` or "uint8" as the name of a dtype."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        name = node.value
    else:
        name = getattr(node, "attr", getattr(node, "id", "")) if node is not None else default
    name = {"int": "int64", "float": "float64", "long": "int64", "double": "float64",
            "half": "float16", "byte": "uint8", "bool_": "bool"}.get(name, name)  # fmt: skip
    return name if name in ITEM_BYTES else default


def environment_of(name: str) -> Record | None:
    """A registered environment: its spaces."""
    known = known_environment(name)
    if known is None or "" not in known.observation:
        return None
    box, action = parse_box(known.observation[""]), parse_action(known.action)
    seen = array(box.shape, box.dtype)
    if box.one_hot:
        seen = Record(n=box.one_hot, shape=(), dtype="int64")
    if action.is_continuous:
        acted = array(action.sizes, "float32")
    else:
        acted = Record(n=action.outputs, shape=(), dtype="int64")
    return Record(
        observation_space=seen, action_space=acted, single_observation_space=seen,
        single_action_space=acted, env_id=name,
    )  # fmt: skip


def made_by(name: str, node: ast.Call, of: Evaluate) -> Any:
    """What a call makes, if it is one of those known here; None otherwise.

    Whatever `of` cannot evaluate stays unknown: its error passes through.
    """
    last = name.rpartition(".")[2]
    if name in _TABLES or last in _TABLES:
        return _table(node, of)
    if last in _SPACES:
        return _space(last, node, of)
    if last in _MAKERS and node.args:
        found = of(node.args[0])
        return environment_of(found) if isinstance(found, str) else None
    if last in _SAME and node.args:
        found = of(node.args[0])
        return found if isinstance(found, dict) else None
    return _array(name, last, node, of)


def wrapped(name: str, node: ast.Call, of: Evaluate) -> Any:
    """`RecordVideo(env)` has the spaces of env; None if its name says that it changes them."""
    last = name.rpartition(".")[2]
    if not node.args or any(word in last.lower() for word in _RESHAPING):
        return None
    found = of(node.args[0])
    if not isinstance(found, Record) or "observation_space" not in found:
        return None
    seen = found["observation_space"]
    if "flatten" in last.lower() and is_array(seen):
        seen = array((int(seen["size"]),), seen["dtype"])
        return Record(found | {"observation_space": seen, "single_observation_space": seen})
    return found


def _keyword(node: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is not None and position < len(node.args):
        return node.args[position]
    return None


def _table(node: ast.Call, of: Evaluate) -> Record | None:
    found = Record()
    for argument in node.args:
        value = of(argument)
        if not isinstance(value, dict):
            return None
        found.update(value)
    for keyword in node.keywords:
        value = of(keyword.value)
        found.update(value if keyword.arg is None else {keyword.arg: value})
    return found


def _space(kind: str, node: ast.Call, of: Evaluate) -> Record | None:
    if kind != "Box":
        name = "nvec" if kind == "MultiDiscrete" else "n"
        argument = _keyword(node, name, 0)
        value = None if argument is None else of(argument)
        if kind == "Discrete":
            return Record(n=value, shape=(), dtype="int64")
        size = value if isinstance(value, int) else len(value or ())
        return Record(n=value, nvec=value, shape=(size,), dtype="int64")
    shape = box_shape(node, of)
    dtype = dtype_name(_keyword(node, "dtype", 3), "float32")
    return None if shape is None else array(shape, dtype)


def box_shape(node: ast.Call, of: Evaluate) -> tuple[int, ...] | None:
    """`Box(low, high, shape)`: the shape, or that of its bounds."""
    argument = _keyword(node, "shape", 2)
    if argument is not None and not _is_none(argument):
        value = of(argument)
        shape = (value,) if isinstance(value, int) else tuple(value)
        return shape if all(isinstance(size, int) and size > 0 for size in shape) else None
    for name, position in (("low", 0), ("high", 1)):
        bound = _keyword(node, name, position)
        found = None if bound is None else shape_of(of(bound))
        if found:
            return found
    # gymnasium's own default for two numbers
    return (1,)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _array(name: str, last: str, node: ast.Call, of: Evaluate) -> Any:
    first = name.partition(".")[0]
    if last == "prod" and first in ("np", "numpy", "math", "jnp") and node.args:
        value = of(node.args[0])
        return math.prod(value) if isinstance(value, list | tuple) else None
    if last == "prod" and isinstance(node.func, ast.Attribute):
        value = of(node.func.value)
        numbers = value.get("values") if isinstance(value, Record) else value
        return math.prod(numbers) if isinstance(numbers, list | tuple) else None
    if first not in ("np", "numpy", "jnp", "onp"):
        return None
    dtype = _keyword(node, "dtype")
    if last in ("array", "asarray") and node.args:
        value = of(node.args[0])
        if is_array(value):
            return value
        shape = shape_of(value)
        is_list = isinstance(value, list | tuple)
        if not shape or not is_list:
            return None
        whole = all(isinstance(part, int) for part in value)
        found = array(shape, dtype_name(dtype, "int64" if whole else "float64"))
        found["values"] = value
        return found
    if last in _FILLED and node.args:
        value = of(node.args[0])
        sizes = (value,) if isinstance(value, int) else value
        if isinstance(sizes, list | tuple) and all(isinstance(size, int) for size in sizes):
            return array(tuple(sizes), dtype_name(dtype, "float64"))
    return None
