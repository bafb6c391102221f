"""In which order a table lists types: what the user wrote and knows first, machinery never.

By names alone, so that a process and a reader of its recording order alike.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum


class TypeRank(IntEnum):
    """Where a type stands in a table; HIDDEN stands in none."""

    USER_ROLE = 0  # the user's environments, agents, buffers
    USER = 1
    ROLE = 2  # those of frameworks: environments, buffers, networks, optimizers
    ARRAY = 3  # arrays, tensors, tables
    DATA = 4  # lists, dictionaries and other values
    OTHER = 5
    CODE = 6  # functions, classes and what they are made of
    HIDDEN = 7  # what describes code to the interpreter: it belongs to imports


KNOWN = (TypeRank.USER_ROLE, TypeRank.USER, TypeRank.ROLE)  # a user knows how many there should be
# of each at most, so that no rank takes a table for itself
MOST_ROWS: Mapping[TypeRank, int] = {
    TypeRank.USER_ROLE: 6,
    TypeRank.USER: 6,
    TypeRank.ROLE: 6,
    TypeRank.ARRAY: 4,
    TypeRank.DATA: 4,
}

_ROLE_NAME = re.compile(
    r"(Env|Environment|Wrapper|Buffer|Replay|Memory|Storage|Agent|Policy|Actor|Critic|Network|Net"
    r"|Model|Learner|Trainer|Algorithm|Optimizer|Population)\Z"
)
_ALGORITHM = re.compile(r"[A-Z][A-Z0-9]{1,7}\Z")  # PPO, SAC, TD3
_FRAMEWORKS = frozenset(
    {
        "gymnasium", "gym", "pettingzoo", "ale_py", "minigrid", "dm_env", "dm_control", "shimmy",
        "supersuit", "stable_baselines3", "sb3_contrib", "torchrl", "tianshou", "cpprb", "ray",
        "elegantrl", "agilerl", "cleanrl_utils", "skrl", "rl_games", "pufferlib", "flashbax",
        "ramledger",
    }
)  # fmt: skip
# in these all classes have a role, but for those with a small first letter
_ROLE_PLACES = {
    "torch": ("torch.nn.", "torch.optim."),
    "keras": ("keras.",),
    "tf_keras": ("tf_keras.",),
    "flax": ("flax.",),
    "haiku": ("haiku.",),
    "gymnasium": ("gymnasium.wrappers.",),
    "gym": ("gym.wrappers.",),
}
_ARRAY_TOPS = frozenset(
    {
        "torch", "numpy", "cupy", "jaxlib", "jax", "tensorflow", "scipy", "pandas", "polars",
        "pyarrow", "tensordict",
    }
)  # fmt: skip
_ARRAY = re.compile(
    r"(torch\.(.*\.)?(Tensor|Parameter|Buffer)|numpy\.(.*\.)?(ndarray|memmap|MaskedArray|matrix)"
    r"|cupy\..*ndarray|jaxlib\..*Array\w*|jax\..*Array\w*"
    r"|tensorflow\..*(EagerTensor|Variable)|scipy\.sparse\..*_(array|matrix)"
    r"|pandas\..*(DataFrame|Series|Index|Array)|polars\..*(DataFrame|Series)"
    r"|pyarrow\..*(Array|Table|RecordBatch|Buffer)|tensordict\..*TensorDict)\Z"
)
_VALUES = frozenset(
    {
        "dict", "list", "tuple", "set", "frozenset", "str", "bytes", "bytearray", "int", "float",
        "complex", "bool", "range", "object", "memoryview",
    }
)  # fmt: skip
_VALUE_MODULES = frozenset(
    {
        "collections", "array", "queue", "_queue", "datetime", "decimal", "fractions", "uuid",
        "mmap", "itertools", "random", "pathlib",
    }
)  # fmt: skip
_WORK = frozenset({"generator", "coroutine", "async_generator", "frame"})  # it holds variables
_MACHINERY = frozenset(
    {
        "typing", "typing_extensions", "_typing", "annotationlib", "inspect", "types", "abc",
        "_abc", "enum", "dataclasses", "ast", "_ast", "dis", "opcode", "importlib", "zipimport",
        "_frozen_importlib", "_frozen_importlib_external", "importlib_metadata", "pkgutil",
        "pkg_resources", "_distutils_hack", "re", "_sre", "string", "operator", "contextlib",
        "ctypes", "_ctypes", "warnings", "codecs", "encodings", "tokenize", "token", "keyword",
        "numbers", "copyreg", "_weakrefset", "six", "struct", "_struct", "signal", "argparse",
        "ramledger",
    }
)  # fmt: skip
_CODE_MODULES = frozenset({"functools", "weakref", "pybind11_builtins"})


def type_rank(name: str, user_classes: Collection[str] = ()) -> TypeRank:
    """The rank of a type by its full name, such as `torch.Tensor`."""
    if name in user_classes or name.startswith("__main__."):
        is_role_of_user = _ROLE_NAME.search(name.rpartition(".")[2])
        return TypeRank.USER_ROLE if is_role_of_user else TypeRank.USER
    top, dot, _ = name.partition(".")
    if not dot:
        if name in _VALUES:
            return TypeRank.DATA
        return TypeRank.OTHER if name in _WORK else TypeRank.CODE
    if is_role(name):
        return TypeRank.ROLE
    return _rank_by_module(name, top)


def is_role(name: str) -> bool:
    """Whether a type is an environment, buffer, network or the like of a framework."""
    top = name.partition(".")[0]
    if top not in _FRAMEWORKS and top not in _ROLE_PLACES:
        return False
    short = name.rpartition(".")[2]
    if name.startswith(_ROLE_PLACES.get(top, ())) and short[:1].isupper():
        return not _ARRAY.match(name)
    is_named_so = _ROLE_NAME.search(short) or _ALGORITHM.match(short)
    return top in _FRAMEWORKS and bool(is_named_so)


def _rank_by_module(name: str, top: str) -> TypeRank:
    if top in _ARRAY_TOPS and _ARRAY.match(name):
        return TypeRank.ARRAY
    if top in _MACHINERY or name.startswith(("collections.abc.", "weakref.CallableProxyType")):
        return TypeRank.HIDDEN
    if top in _CODE_MODULES:
        return TypeRank.CODE
    return TypeRank.DATA if top in _VALUE_MODULES else TypeRank.OTHER


def listed_types(
    names: Iterable[str], user_classes: Collection[str], most: Mapping[TypeRank, int] = MOST_ROWS
) -> list[str]:
    """The types for a short table, by rank; within a rank in the order given, so many at most."""
    left = dict(most)
    found: list[tuple[TypeRank, str]] = []
    for name in names:
        rank = type_rank(name, user_classes)
        if left.get(rank, 0) > 0:
            left[rank] -= 1
            found.append((rank, name))
    return [name for _, name in sorted(found, key=lambda row: row[0])]
