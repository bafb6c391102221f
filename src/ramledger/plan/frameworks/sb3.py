"""stable-baselines3 and sb3-contrib in a script: the model's constructor and `learn`."""

import ast
from typing import Any

from ramledger.plan.budget import Check, Severity
from ramledger.plan.formulas.algorithms import algorithm_names, find_algorithm
from ramledger.plan.frameworks.rl_zoo3 import network_fields
from ramledger.plan.sources.expressions import Unknown, at_end, choices_in, name_of
from ramledger.plan.sources.script_fields import Fields, whole
from ramledger.plan.sources.script_scopes import Call, Script
from ramledger.plan.sources.source_result import SearchRange

_COUNTS = (
    "n_steps", "batch_size", "n_epochs", "buffer_size", "learning_starts", "gradient_steps",
)  # fmt: skip
_TARGETS = ("tau", "target_update_interval", "target_kl_update")
_POLICIES = ("Mlp", "Cnn", "MultiInput")
_PACKAGES = ("stable_baselines3", "sb3_contrib")


def find_model(script: Script) -> Call | None:
    """The first constructor of an algorithm."""
    names = {*algorithm_names("sb3")}
    for call in script.calls:
        if call.last in names and (
            call.name.startswith(_PACKAGES) or call.argument("policy", 0) is not None
        ):
            return call
    return None


def read_sb3(script: Script, call: Call, fields: Fields) -> tuple[Check, ...]:
    """Every argument of the constructor that changes a size."""
    fields.put("framework", "sb3", call.line)
    fields.put("algorithm", call.last, call.line)
    algorithm = find_algorithm("sb3", call.last)
    for name in _COUNTS:
        if name == "n_steps" and not algorithm.is_on_policy:
            continue
        fields.take(name, call, name)
    _policy(call, fields)
    fields.take("train_freq", call, "train_freq", None, _frequency)
    fields.take("optimize_memory_usage", call, "optimize_memory_usage", None, bool)
    fields.take("use_sde", call, "use_sde", None, bool)
    fields.take("device", call, "device", None, _device)
    _automatic_device(script, call, fields)
    _network(call, fields)
    _replay(call, fields)
    for learn in script.find("learn"):
        fields.take("total_steps", learn, "total_timesteps", 0)
        break
    return tuple(_foreign_arguments(script, call, algorithm.is_on_policy))


def _policy(call: Call, fields: Fields) -> None:
    """By name, as a string or as one of SB3's own classes."""
    node = call.argument("policy", 0)
    if node is None:
        return
    name = name_of(node).rpartition(".")[2]
    if name.startswith(_POLICIES) and name.endswith("Policy"):
        fields.put("policy", name, node.lineno)
        return
    try:
        value = call.value("policy", 0)
    except Unknown as unknown:
        value = unknown
    if isinstance(value, str):
        fields.put("policy", value, node.lineno)
    else:
        fields.miss("policy", ast.unparse(node)[:60], node.lineno)


def _frequency(value: Any) -> int:
    return whole(value[0] if isinstance(value, tuple | list) and value else value)


def _device(value: Any) -> str:
    return "cuda" if str(value).startswith("cuda") else "cpu"


def _automatic_device(script: Script, call: Call, fields: Fields) -> None:
    """SB3's default is "auto": a GPU if there is one, and --vram says that there is."""
    try:
        given = call.value("device", default="auto")
    except Unknown:
        given = "auto"
    machine = script.given.get("machine")
    if given == "auto" and isinstance(machine, dict) and machine.get("vram"):
        fields.put("device", "cuda", call.line)


def _network(call: Call, fields: Fields) -> None:
    node = call.argument("policy_kwargs")
    if node is None:
        return
    try:
        table = call.value("policy_kwargs")
    except Unknown as unknown:
        fields.miss("net_arch", unknown.what, call.line)
        return
    if isinstance(table, dict):
        missing: list[str] = []
        highest = network_fields(at_end(table, "high"), [])
        choice = next(choices_in(table), None)
        for name, value in network_fields(at_end(table, "low"), missing).items():
            fields.put(name, value, node.lineno)
            if choice is not None and highest.get(name) != value:
                where = fields.script.place(choice.line)
                found = SearchRange(name, value, highest.get(name), where, choice.line)
                fields.ranges.append(found)
        fields.unresolved += [f"{fields.script.place(node)}: {line}" for line in missing]


def _replay(call: Call, fields: Fields) -> None:
    node = call.argument("replay_buffer_class")
    if node is not None and name_of(node).rpartition(".")[2] == "HerReplayBuffer":
        fields.put("her", True, call.line)
    try:
        extra = call.value("replay_buffer_kwargs", default={})
    except Unknown:
        return
    if isinstance(extra, dict) and isinstance(extra.get("handle_timeout_termination"), bool):
        value = extra["handle_timeout_termination"]
        fields.put("handle_timeout_termination", value, call.line)


def _foreign_arguments(script: Script, call: Call, is_on_policy: bool) -> list[Check]:
    """Arguments that the algorithm does not have: targets and buffers of PPO."""
    if not is_on_policy:
        return []
    found = []
    for name in (*_TARGETS, "buffer_size"):
        node = call.argument(name)
        if isinstance(node, ast.expr):
            what = "a replay buffer" if name == "buffer_size" else "target networks"
            found.append(
                Check(
                    "no-target-network" if name != "buffer_size" else "no-replay-buffer",
                    Severity.ERROR,
                    script.place(getattr(node, "lineno", call.line)),
                    f"{call.last} has no {what}, and its constructor no {name}",
                    f"remove {name}",
                )
            )
    return found
