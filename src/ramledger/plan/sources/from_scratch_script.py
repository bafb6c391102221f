"""A training script that uses no framework: its buffers, networks and settings become a config."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.formulas.known_environments import Environment, known_environment
from ramledger.plan.formulas.spaces import ITEM_BYTES, parse_box
from ramledger.plan.sources.expressions import Choice, Unknown, at_end, is_known
from ramledger.plan.sources.known_objects import Record
from ramledger.plan.sources.script_buffers import FoundBuffer, find_buffers, processed_by
from ramledger.plan.sources.script_fields import Fields
from ramledger.plan.sources.script_libraries import put_library
from ramledger.plan.sources.script_networks import Layers, find_networks
from ramledger.plan.sources.script_scopes import Script
from ramledger.plan.sources.setting_names import field_named
from ramledger.plan.sources.source_result import SearchRange, rehearsal_of

_ALGORITHMS = (
    ("AlphaZero", r"alpha_?zero|mcts"), ("PPO", r"ppo"),
    ("SAC", r"(?<![a-z])sac(?![a-z])|soft_?actor"),
    ("TD3", r"td3"), ("DDPG", r"ddpg"),
    ("DQN", r"dqn|q_?net|deep_?q|epsilon_?(greedy|decay|min)|(?<![a-z])q_?values?"),
    ("A2C", r"a2c|a3c|actor_?critic"), ("REINFORCE", r"reinforce|policy_?gradient"),
)  # fmt: skip
_OFF_POLICY = ("DQN", "SAC", "TD3", "DDPG", "AlphaZero")
_COUNTS = (
    "batch_size", "n_envs", "n_steps", "total_steps", "learning_starts", "n_epochs", "population",
    "frame_stack", "episode_length", "buffer_size",
)  # fmt: skip
# of names of files and classes, against those of variables
_WEIGHT = 10
_OPTIMIZERS = {"adam": "adam", "adamw": "adamw", "rmsprop": "rmsprop", "sgd": "sgd"}
_MANY_STEPS = 10_000
_IMAGE_SIGNS = 2  # of 84x84x3


def read_from_scratch(script: Script, fields: Fields) -> bool:
    """Whether a buffer, a network or an environment makes this a training; its fields are put."""
    scripts = (script, *script.modules)
    buffers = find_buffers(scripts)
    networks = find_networks(scripts)
    settings = dict(_settings(scripts))
    is_rollout = "n_steps" in settings and "n_envs" in settings
    is_training = bool(buffers or networks or is_rollout or "buffer_size" in settings)
    if not is_training or not _uses_learning(scripts, buffers):
        return False
    fields.put("framework", "custom", 1)
    fields.places.pop("framework", None)
    has_replay = "buffer_size" in settings or any(not buffer.is_rollout for buffer in buffers)
    algorithm = _algorithm(script, scripts, has_replay, fields)
    put_library(scripts, fields)
    _put_settings(settings, algorithm, fields)
    _put_buffers(buffers, algorithm, fields)
    _observation(scripts, buffers, networks, fields)
    _put_networks(networks, fields, scripts)
    _optimizer(scripts, fields)
    _data_workers(scripts, fields)
    return True


def _uses_learning(scripts: Sequence[Script], buffers: list[FoundBuffer]) -> bool:
    imports = set().union(*(script.imports for script in scripts))
    names = ("gym", "gymnasium", "gymnax", "brax", "torch", "jax", "tensorflow", "keras",
             "pufferlib", "pettingzoo", "envpool", "ale_py", "flax")  # fmt: skip
    return bool(imports.intersection(names)) or bool(buffers)


def _algorithm(script: Script, scripts: Sequence[Script], has_replay: bool, fields: Fields) -> str:
    """By the names that a script uses; only defaults depend on it."""
    given = script.given.get("algorithm")
    if isinstance(given, str):
        return given
    words = [*_identifiers(scripts)]
    counts = {
        name: sum(bool(re.search(pattern, word, re.I)) for word in words)
        for name, pattern in _ALGORITHMS
    }
    # a replay buffer and a rollout are not the same algorithm's
    fitting = [name for name in counts if counts[name] and (name in _OFF_POLICY) == has_replay]
    best = max(fitting, key=lambda name: counts[name], default="DQN" if has_replay else "PPO")
    stem = script.path.rpartition("/")[2].lower()
    best = next((name for name, pattern in _ALGORITHMS if re.search(pattern, stem)
                 and name in fitting), best)  # fmt: skip
    fields.put("algorithm", best, 1)
    fields.places.pop("algorithm", None)
    fields.assume(f"{script.path}: {best}, by the names in it: only defaults depend on it")
    return best


def _identifiers(scripts: Sequence[Script]) -> Iterator[str]:
    for script in scripts:
        yield from [script.path.rpartition("/")[2].removesuffix(".py")] * _WEIGHT
        for node in ast.walk(script.tree):
            if isinstance(node, ast.ClassDef):
                yield from [node.name] * _WEIGHT
            elif isinstance(node, ast.FunctionDef):
                yield node.name
            elif isinstance(node, ast.Name):
                yield node.id


def _settings(scripts: Sequence[Script]) -> Iterator[tuple[str, tuple[Any, str, str]]]:
    """Fields by their common names: value, the name in the script, and where it is."""
    seen: set[str] = set()
    for script in scripts:
        lines = _lines_of(script.tree)
        for name, value in _named_values(script):
            field = field_named(name)
            if field is None or field in seen or not is_known(value):
                continue
            if isinstance(value, int | float | str | Choice) and not isinstance(value, bool):
                seen.add(field)
                yield field, (value, name, script.place(lines.get(name, 1)))


def _named_values(script: Script) -> Iterator[tuple[str, Any]]:
    for name, (value, _) in script.arguments.items():
        yield name, value
    tables: list[dict[Any, Any]] = []
    for name, value in script.names.items():
        if isinstance(value, dict) and len(tables) < 100 and not _is_object(value):
            tables.append(value)
        yield name.rpartition(".")[2], value
    for table in tables:
        for key, value in table.items():
            if isinstance(value, dict):
                yield from ((str(inner), part) for inner, part in value.items())
            yield str(key), value


def _is_object(value: dict[Any, Any]) -> bool:
    return isinstance(value, Record) and ("shape" in value or "observation_space" in value)


def _lines_of(tree: ast.Module) -> dict[str, int]:
    """Where a name is first set: an assignment, an argument, a key of a table, an option."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        name, line = _set_name(node), getattr(node, "lineno", 0)
        if name and line:
            found[name] = min(found.get(name, line), line)
    return found


def _set_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.id if isinstance(node, ast.Name) else node.attr
    if isinstance(node, ast.keyword | ast.arg):
        return node.arg or ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 60:
        return node.value.lstrip("-").replace("-", "_")
    return ""


def _put_settings(
    settings: dict[str, tuple[Any, str, str]], algorithm: str, fields: Fields
) -> None:
    is_off_policy = algorithm in _OFF_POLICY
    steps = at_end(settings.get("n_steps", (0,))[0], "high")
    if is_off_policy and "n_steps" in settings:
        moved = settings.pop("n_steps")
        if isinstance(steps, int | float) and steps >= _MANY_STEPS:
            settings.setdefault("total_steps", moved)
    for field in _COUNTS:
        if field not in settings or field in fields.values:
            continue
        value, _, place = settings[field]
        if isinstance(value, str) or (isinstance(value, int | float) and value < 1):
            continue
        if field == "buffer_size" and not is_off_policy:
            continue
        fields.put_count(field, value, 1)
        if field in fields.places:
            fields.places[field] = place
    value, _, place = settings.get("env", ("", "", ""))
    if "env" not in fields.values and isinstance(value, str) and known_environment(value):
        fields.put("env", value, 1)
        fields.places["env"] = place


def _put_buffers(buffers: list[FoundBuffer], algorithm: str, fields: Fields) -> None:
    table: list[dict[str, Any]] = []
    main = _main_buffer(buffers)
    for buffer in buffers:
        if buffer.unknown:
            if not _is_unresolved(buffer, table, fields):
                table.append(_entry(buffer, algorithm, buffer is main, fields))
        else:
            table.append(_entry(buffer, algorithm, buffer is main, fields))
    if main is not None and isinstance(main.rows, int | Choice) and not main.is_rollout:
        fields.put_count("buffer_size", main.rows, 1)
        fields.places["buffer_size"] = main.place
    if table:
        fields.put("buffers", table, 1)
    elif algorithm not in _OFF_POLICY:
        fields.assume("a rollout of n_steps × n_envs in float32 arrays: no other one was resolved")
        if "n_steps" not in fields.finish():
            fields.assume(f"the usual n_steps of {algorithm}: --set n_steps=… says otherwise")
    elif "buffer_size" in fields.finish():
        fields.assume("a replay buffer of arrays, with next observations: no other was resolved")
    elif buffers:
        raise _unknown_size(buffers[0], "--set buffer_size=…", fields)
    else:
        fields.assume("no replay buffer: none was found; --set buffer_size=… plans one")


def _unknown_size(buffer: FoundBuffer, flag: str, fields: Fields) -> ConfigError:
    return ConfigError(
        f"{buffer.place}: how much {buffer.name} holds is known only when the script runs: "
        f"{buffer.unknown or buffer.text}",
        hint=f"{flag}, or measure it: {rehearsal_of(fields.script.path)}",
    )


def _is_unresolved(buffer: FoundBuffer, table: list[dict[str, Any]], fields: Fields) -> bool:
    """List a buffer of unknown size; one of observations is planned by what these are."""
    what = f"{buffer.unknown} in {buffer.text[:60]}"
    if not buffer.is_array:
        if "buffer_size" in fields.finish():
            return False
        fields.miss("buffer_size", what, buffer.line, buffer.script)
        return True
    elements = _observation_elements(fields)
    if buffer.holds_observations and elements is None:
        raise _unknown_size(buffer, "--obs 84x84x4:uint8 says what it stores", fields)
    if buffer.holds_observations and elements is not None:
        entry = {
            "name": f"{'rollout' if buffer.is_rollout else 'replay'}/{buffer.name}",
            "row_bytes": elements * ITEM_BYTES[buffer.dtype],
            "eager": buffer.eager,
            "source": f"{buffer.text}, {buffer.place}",
        }
        table.append(entry | ({"rows": buffer.rows} if buffer.rows else {}))
        fields.assume(f"{buffer.place}: {buffer.name} stores observations of {elements:,} numbers")
        return True
    flag = f": give it with --set {buffer.unknown}=…" if buffer.unknown.isidentifier() else ""
    fields.unresolved.append(f"{buffer.place}: the size of {buffer.name} is {what}{flag}")
    return True


def _observation_elements(fields: Fields) -> int | None:
    text = fields.finish().get("observation")
    known = known_environment(str(fields.finish().get("env", "")))
    if not isinstance(text, str) and known is not None:
        text = known.observation.get("")
    try:
        frames = int(fields.finish().get("frame_stack", 1))
        return frames * parse_box(text).elements if isinstance(text, str) else None
    except ConfigError:
        return None


def _main_buffer(buffers: list[FoundBuffer]) -> FoundBuffer | None:
    """The buffer whose capacity `buffer_size` is: the first of transitions, else of arrays."""
    known = [b for b in buffers if b.rows is not None and not b.is_rollout and not b.unknown]
    return next((b for b in known if b.row_bytes is None), next(iter(known), None))


def _entry(buffer: FoundBuffer, algorithm: str, is_main: bool, fields: Fields) -> dict[str, Any]:
    prefix = "rollout" if buffer.is_rollout else "replay"
    if buffer.row_bytes is not None and not buffer.is_rollout and not is_main:
        is_main = fields.values.get("buffer_size") == buffer.rows
    entry: dict[str, Any] = {
        "name": f"{prefix}/{buffer.name}",
        "source": f"{buffer.text}, {buffer.place}",
        "eager": buffer.eager,
    }
    if not is_main and buffer.rows is not None:
        entry["rows"] = max(at_end(buffer.rows, "low"), 1)
    if buffer.row_bytes is not None:
        entry["row_bytes"] = buffer.row_bytes
        return entry
    entry |= {
        "held_as": buffer.held_as,
        "observations": buffer.observations,
        "elements": buffer.elements,
    }
    if buffer.held_as == "arrays":
        return entry
    held = {"torch": "torch tensors"}.get(buffer.held_as, "numpy arrays")
    shared = (
        "the next one is the same object later on" if buffer.observations == 1 else "both are kept"
    )
    fields.assume(f"{buffer.place}: observations in {buffer.name} are {held}; {shared}")
    return entry


def _put_networks(networks: list[Layers], fields: Fields, scripts: Sequence[Script]) -> None:
    known = [layers for layers in networks if not layers.unknown and layers.parameters]
    for layers in networks:
        if layers.unknown:
            fields.unresolved.append(
                f"{layers.place}: the layers of {layers.name} ({layers.unknown}): "
                "--network module:function sizes them, or --set trained_parameters=…"
            )
    if not known:
        if networks:
            fields.assume(
                "networks: the usual ones of the algorithm, in place of those not resolved"
            )
        return
    low = _network_table(known, fields)
    fields.put("networks", low, 1)
    high = find_networks(scripts, "high")
    certain = [layers for layers in high if not layers.unknown and layers.parameters]
    highest = _network_table(certain, fields)
    if highest != low:
        where = known[0].place
        line = int(where.rpartition(":")[2])
        fields.ranges.append(SearchRange("networks", low, highest, where, line))


def _network_table(networks: list[Layers], fields: Fields) -> list[dict[str, Any]]:
    height, width = _image(fields)
    return [
        {
            "name": layers.name,
            "parameters": layers.parameters,
            "copies": layers.copies,
            "trained": min(max(layers.trained, 1), layers.copies),
            "outputs": layers.outputs,
            "convolutions": layers.convolutions(height, width) if height else [],
            "largest": layers.largest,
        }
        for layers in networks
    ]


def _image(fields: Fields) -> tuple[int, int]:
    text = fields.script.given.get("observation") or fields.values.get("observation")
    sizes = str(text).partition(":")[0].split("x")
    if len(sizes) != 3 or not all(size.isdigit() for size in sizes):
        return 0, 0
    numbers = sorted(map(int, sizes))
    return numbers[1], numbers[2]


def _unless_processed(scripts: Sequence[Script], fields: Fields) -> Environment | None:
    """The known environment; images that are changed before they are stored are not its own."""
    known = known_environment(fields.values.get("env", ""))
    text = fields.values.get("observation") or (known.observation.get("", "") if known else "")
    function, place = processed_by(scripts)
    if not function or str(text).count("x") != _IMAGE_SIGNS or "observation" in fields.script.given:
        return known
    fields.values.pop("observation", None)
    fields.values.pop("env", None)
    fields.unresolved.append(
        f"{place}: observation is what {function} makes of {text}: give it with --obs"
    )
    return None


def _observation(
    scripts: Sequence[Script],
    buffers: list[FoundBuffer],
    networks: list[Layers],
    fields: Fields,
) -> None:
    """Where no environment tells: what a buffer stores, or what a network reads."""
    known = _unless_processed(scripts, fields)
    if "observation" not in fields.values and known is None:
        for buffer in buffers:
            if buffer.holds_observations and buffer.shape and not buffer.unknown:
                text = f"{'x'.join(map(str, buffer.shape))}:{buffer.dtype}"
                _assume("observation", text, buffer.place, f"as {buffer.name} stores it", fields)
                break
        else:
            _observation_of_network(buffers, networks, fields)
    if "action" not in fields.values and known is None:
        last = next((n.last for n in networks if n.last > 1), 0)
        if last:
            place = next(n.place for n in networks if n.last > 1)
            _assume("action", f"discrete:{last}", place, "as the last layer gives it", fields)


def _observation_of_network(
    buffers: list[FoundBuffer], networks: list[Layers], fields: Fields
) -> None:
    for layers in networks:
        if layers.kernels:
            _image_of_network(layers, buffers, fields)
            return
        if layers.inputs:
            _assume("observation", f"{layers.inputs}:float64", layers.place,
                    f"as {layers.name} reads it", fields)  # fmt: skip
            return


def _image_of_network(layers: Layers, buffers: list[FoundBuffer], fields: Fields) -> None:
    """The smallest square image after whose convolutions the first flat layer fits."""
    channels = layers.kernels[0][0]
    side = layers.side_of_image()
    if not side:
        what = f"an image of {channels} channels"
        fields.unresolved.append(f"{layers.place}: observation is {what}: give it with --obs")
        return
    shape = f"{channels}x{side}x{side}"
    if any(buffer.held_as == "torch" for buffer in buffers):
        _assume(
            "observation", f"{shape}:float32", layers.place, f"as {layers.name} reads it", fields
        )
        return
    fields.unresolved.append(
        f"{layers.place}: observation is {shape}:uint8 or :float32, as {layers.name} reads it: "
        "give it with --obs"
    )


def _assume(field: str, text: str, place: str, why: str, fields: Fields) -> None:
    if field in fields.script.given:
        return
    fields.put(field, text, 1)
    fields.places[field] = place
    option = "--obs" if field == "observation" else "--action"
    fields.assume(f"{place}: {field} {text}, {why}; {option} says otherwise")


def _optimizer(scripts: Sequence[Script], fields: Fields) -> None:
    """Adam, unless another one is made, or none."""
    found = {call.last.lower() for script in scripts for call in script.calls} & set(_OPTIMIZERS)
    if not found and fields.values.get("library") == "torch":
        fields.put("optimizer", "sgd", 1)
        fields.assume("no optimizer was found: no moments are planned")
    elif len(found) == 1:
        fields.put("optimizer", _OPTIMIZERS[found.pop()], 1)
    fields.places.pop("optimizer", None)


def _data_workers(scripts: Sequence[Script], fields: Fields) -> None:
    for script in scripts:
        for call in script.find("DataLoader"):
            try:
                count = call.value("num_workers", 5, 0)
            except Unknown:
                continue
            if isinstance(count, int) and count > 0:
                fields.assume(
                    f"{script.place(call.line)}: {count} workers of a DataLoader are forked and "
                    "share what is loaded; what they copy is not planned"
                )
