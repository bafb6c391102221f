"""What a script says of its environments: ids, spaces, wrappers, how many and in what processes."""

import ast
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ramledger.plan.formulas.known_environments import is_atari, known_environment
from ramledger.plan.frameworks.sb3 import ALGORITHMS
from ramledger.plan.sources.expressions import (
    Choice,
    Unknown,
    at_end,
    choices_in,
    name_of,
    value_of,
)
from ramledger.plan.sources.known_objects import box_shape, dtype_name
from ramledger.plan.sources.script_fields import Fields, whole
from ramledger.plan.sources.script_scopes import Call, Script

_RAW_ATARI = "210x160x3:uint8"
_VECTORS = ("SyncVectorEnv", "AsyncVectorEnv")
_ATARI_WRAPPERS = ("make_atari_env", "AtariWrapper", "AtariPreprocessing", "WarpFrame")
_STACKS = {
    "VecFrameStack": ("n_stack", 1), "FrameStack": ("num_stack", 1),
    "FrameStackObservation": ("stack_size", 1), "FrameStackV1": ("num_stack", 1),
}  # fmt: skip


def read_environments(script: Script, fields: Fields) -> None:
    """Environment, spaces, frame stack, number and processes."""
    _environment(script, fields)
    _count(script, fields)
    _processes(script, fields)
    _stack(script, fields)
    _spaces(script, fields)


def _environment(script: Script, fields: Fields) -> None:
    for call in script.find("make_vec_env", "make_atari_env", "make", "make_vec", "make_env"):
        name = "env_id" if call.last in ("make_vec_env", "make_atari_env") else "id"
        position = 0
        node = call.argument(name, position)
        if node is None:
            continue
        try:
            value = call.value(name, position)
        except Unknown as unknown:
            if "env" not in fields.values and call.last != "make_env":
                fields.values.setdefault("_env_missing", (unknown.what, call.line))
            continue
        if isinstance(value, str) and "env" not in fields.values:
            fields.put("env", value, call.line)
    _named_in_the_model(script, fields)
    for name in ("env_id", "env_name", "gym_id", "env"):
        value, line = script.arguments.get(name, (None, 0))
        if isinstance(value, str) and "env" not in fields.values:
            fields.put("env", value, line)
    fields.values.pop("_env_missing", None)


def _named_in_the_model(script: Script, fields: Fields) -> None:
    """`PPO("MlpPolicy", "CartPole-v1")`."""
    for call in script.find(*(entry.name for entry in ALGORITHMS)):
        if "env" not in fields.values and call.argument("policy", 0) is not None:
            with suppress(Unknown):
                value = call.value("env", 1)
                if isinstance(value, str):
                    fields.put("env", value, call.line)


def _count(script: Script, fields: Fields) -> None:
    for call in script.find("make_vec_env", "make_atari_env"):
        fields.take("n_envs", call, "n_envs", 1)
    for call in script.find("make_vec"):
        fields.take("n_envs", call, "num_envs", 1)
    if "n_envs" in fields.values:
        return
    for call in script.find("DummyVecEnv", "SubprocVecEnv", *_VECTORS):
        node = call.argument("env_fns", 0)
        if node is None:
            continue
        try:
            fields.put("n_envs", _length(node, call), call.line)
            return
        except Unknown as unknown:
            fields.miss("n_envs", unknown.what, call.line)
            return
        except (TypeError, ValueError, OverflowError) as error:  # range() of an unknown value
            fields.miss("n_envs", str(error), call.line)
            return


def _length(node: ast.expr, call: Call) -> int | Choice:
    """How many functions a vectorized environment is given."""
    if isinstance(node, ast.List | ast.Tuple):
        return len(node.elts)
    if isinstance(node, ast.ListComp) and len(node.generators) == 1:
        source = node.generators[0].iter
        if isinstance(source, ast.Call) and name_of(source.func) == "range":
            bounds = [value_of(part, call.names) for part in source.args]
            choice = next(choices_in(bounds), None)
            ends = [
                len(range(*[whole(at_end(part, end)) for part in bounds]))
                for end in ("low", "high")
            ]
            return ends[0] if choice is None else Choice(ends[0], ends[1], choice.line)
        return len(value_of(source, call.names))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        parts = [node.left, node.right]
        lists = [part for part in parts if isinstance(part, ast.List)]
        others = [part for part in parts if not isinstance(part, ast.List)]
        if lists and others:
            return len(lists[0].elts) * whole(value_of(others[0], call.names))
    value = value_of(node, call.names)
    return len(value)


def _processes(script: Script, fields: Fields) -> None:
    for call in script.find("SubprocVecEnv", "AsyncVectorEnv"):
        fields.put("vec_env", "subproc", call.line)
        fields.take("start_method", call, "start_method", 1, str)
        if call.last == "AsyncVectorEnv":
            fields.put("start_method", "fork", call.line)
    for call in script.find("make_vec_env", "make_atari_env"):
        node = call.argument("vec_env_cls")
        if node is not None and name_of(node).endswith("SubprocVecEnv"):
            fields.put("vec_env", "subproc", call.line)
            try:
                extra = call.value("vec_env_kwargs", default={})
                method = extra.get("start_method") if isinstance(extra, dict) else None
                if isinstance(method, str):
                    fields.put("start_method", method, call.line)
            except Unknown as unknown:
                fields.miss("start_method", unknown.what, call.line)


def _stack(script: Script, fields: Fields) -> None:
    for call in script.find(*_STACKS):
        name, position = _STACKS[call.last]
        fields.take("frame_stack", call, name, position)


def _spaces(script: Script, fields: Fields) -> None:
    boxes = _declared(script, fields, "observation_space")
    for source, call in boxes:
        text = _observation_text(source, call, fields)
        if text is not None:
            fields.put("observation", text, call.line)
            fields.places["observation"] = source.place(call.line)
            break
    else:
        text = _wrapped(script, fields)
        if text is not None:
            fields.put("observation", text, 1)
    for source, call in _declared(script, fields, "action_space"):
        found = _action(call)
        if found is not None and "action" not in fields.values:
            fields.put("action", found, call.line)
            fields.places["action"] = source.place(call.line)


def _declared(script: Script, fields: Fields, attribute: str) -> list[tuple[Script, Call]]:
    """`self.observation_space = spaces.Box(…)`, of classes that are used before others."""
    scripts = (script, *script.modules)
    used = _reached(script) | set(_entry_classes(script))
    found = [
        (source, call)
        for source in scripts
        for call in source.calls
        if call.target.split(".")[-1] == attribute
        and call.last in ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict")
    ]
    if known_environment(fields.values.get("env", "")) is not None:
        # a module may define environments that this training does not use
        found = [(source, call) for source, call in found if call.owner in used]
    return sorted(found, key=lambda pair: pair[1].owner not in used)


def _reached(script: Script) -> set[str]:
    """Names that the script calls, and those that the classes and functions behind them call."""
    found = {call.last for call in script.calls}
    calls = [call for module in script.modules for call in module.calls]
    while True:
        more = {
            call.last
            for call in calls
            if call.owner in found or call.function in found or not (call.owner or call.function)
        }
        if more <= found:
            return found
        found |= more


def _entry_classes(script: Script) -> Iterator[str]:
    for source in (script, *script.modules):
        for call in source.find("register"):
            with suppress(Unknown):
                value = call.value("entry_point", 1)
                if isinstance(value, str):
                    yield value.rpartition(":")[2]


def _observation_text(source: Script, call: Call, fields: Fields) -> Any:
    found: Any = _dict_observation(call) if call.last == "Dict" else _box(call)
    if found is None:
        shape = call.argument("shape", 2)
        if shape is not None:
            what = ast.unparse(shape)[:60]
            fields.miss("observation", what, call.line, source)
    return found


def _box(call: Call) -> str | None:
    if call.last == "Discrete":
        return _sized("discrete", call, "n")
    if call.last == "MultiBinary":
        text = _sized("", call, "n")
        return text and f"{text[1:].replace(',', 'x')}:int8"
    if call.last == "MultiDiscrete":
        return _sized("discrete", call, "nvec")
    if call.last != "Box":
        return None
    try:
        numbers = box_shape(call.node, lambda node: value_of(node, call.names))
    except (Unknown, TypeError):
        return None
    if numbers is None:
        return None
    given = call.argument("dtype", 3)
    # the dtype of another space: pixels go to 255
    usual = "uint8" if given is not None and _ends_at_255(call) else "float32"
    return f"{'x'.join(map(str, numbers))}:{dtype_name(given, usual)}"


def _ends_at_255(call: Call) -> bool:
    with suppress(Unknown):
        return bool(call.value("high", 1) == 255)
    return False


def _dict_observation(call: Call) -> dict[str, str] | None:
    node = call.argument("spaces", 0)
    pairs: list[tuple[str, ast.expr]] = [
        (keyword.arg, keyword.value) for keyword in call.node.keywords if keyword.arg
    ]
    if isinstance(node, ast.Dict):
        pairs = [
            (key.value, value)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        ]
    found: dict[str, str] = {}
    for name, value in pairs:
        if not isinstance(value, ast.Call):
            return None
        text = _box(Call(name_of(value.func).rpartition(".")[2], value, call.names))
        if text is None:
            return None
        found[name] = text
    return found or None


def _sized(kind: str, call: Call, argument: str) -> str | None:
    try:
        value = call.value(argument, 0)
    except Unknown:
        return None
    if isinstance(value, int) and value > 0:
        return f"{kind}:{value}"
    if isinstance(value, list | tuple) and all(isinstance(part, int) for part in value):
        return f"{kind}:{','.join(map(str, value))}"
    return None


def _action(call: Call) -> str | None:
    if call.last == "Box":
        text = _box(call)
        if text is None:
            return None
        return "box:" + ",".join(text.partition(":")[0].split("x"))
    names = {"Discrete": "n", "MultiDiscrete": "nvec", "MultiBinary": "n"}
    return _sized(call.last.lower(), call, names.get(call.last, "n"))


def _wrapped(script: Script, fields: Fields) -> str | None:
    """Wrappers that change a known environment's frames."""
    env = fields.values.get("env", "")
    known = known_environment(env)
    if known is None or "" not in known.observation:
        return None
    sources = (script, *script.modules)
    is_wrapped = any(True for source in sources for _ in source.find(*_ATARI_WRAPPERS))
    text = known.observation[""]
    if is_atari(env) and not is_wrapped:
        text = _RAW_ATARI
    shape, _, dtype = text.partition(":")
    numbers = [int(number) for number in shape.split("x")] if "x" in shape else []
    if len(numbers) != 3:
        return None
    high, wide, depth = numbers
    if any(True for _ in script.find("GrayScaleObservation", "GrayscaleObservation")):
        depth = 1
    for call in script.find("ResizeObservation"):
        try:
            size = call.value("shape", 1)
            high, wide = (size, size) if isinstance(size, int) else (size[0], size[1])
        except (Unknown, TypeError, IndexError):
            fields.miss("observation", "a resized image", call.line)
    found = f"{high}x{wide}x{depth}:{dtype or 'uint8'}"
    return None if found == known.observation[""] else found
