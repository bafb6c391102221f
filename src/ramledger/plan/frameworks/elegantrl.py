"""ElegantRL in a script: `Config(AgentTD3, env_class, env_args)` and what is set on it."""

import ast
from typing import Any

from ramledger.plan.sources.expressions import Unknown, at_end, name_of
from ramledger.plan.sources.script_fields import Fields
from ramledger.plan.sources.script_scopes import Call, Script

_SET = {
    "net_dims": "net_arch", "batch_size": "batch_size", "buffer_size": "buffer_size",
    "horizon_len": "n_steps", "break_step": "total_steps", "num_workers": "num_env_runners",
    "num_threads": "torch_threads", "repeat_times": "",
}  # fmt: skip


def find_config(script: Script) -> Call | None:
    """The Config (formerly Arguments) that gets an agent class."""
    for call in script.find("Config", "Arguments"):
        node = call.argument("agent_class", 0)
        if (node is not None and "Agent" in _class_name(node, script)) or call.name.startswith(
            "elegantrl"
        ):
            return call
    return None


def _class_name(node: ast.expr, script: Script) -> str:
    name = name_of(node)
    if name.rpartition(".")[2].startswith("Agent"):
        return name.rpartition(".")[2]
    # agent_class = [AgentTD3, AgentSAC][DRL_ID]
    for statement in ast.walk(script.tree):
        if isinstance(statement, ast.Assign) and name_of(statement.targets[0]) == name:
            for inner in ast.walk(statement.value):
                if isinstance(inner, ast.Name) and inner.id.startswith("Agent"):
                    return inner.id
    return _asserted(name, script) or name.rpartition(".")[2]


def _asserted(name: str, script: Script) -> str:
    """`def train(agent_class): assert agent_class in {AgentDQN, AgentD3QN}`."""
    for node in ast.walk(script.tree):
        test = node.test if isinstance(node, ast.Assert) else None
        if isinstance(test, ast.Compare) and name_of(test.left) == name:
            agents = [part.id for part in ast.walk(test) if isinstance(part, ast.Name)]
            return next((agent for agent in agents if agent.startswith("Agent")), "")
    return ""


def read_elegantrl(script: Script, call: Call, fields: Fields) -> None:
    """Fields from env_args and from what is assigned to the config afterwards."""
    fields.put("framework", "elegantrl", call.line)
    node = call.argument("agent_class", 0)
    name = _class_name(node, script) if node is not None else ""
    if name.startswith("Agent") and name != "Agent":
        fields.put("algorithm", name.removeprefix("Agent"), call.line)
    else:
        fields.miss("algorithm", name or "not given", call.line)
    _environment(script, call, fields)
    holder = call.target or "args"
    for attribute, field in _SET.items():
        value, line = _assigned(script, holder, attribute)
        if value is None or not field:
            continue
        if isinstance(value, Unknown):
            fields.miss(field, value.what, line)
        elif field == "net_arch":
            _put_widths(value, line, fields)
        else:
            fields.put_count(field, value, line)


def _put_widths(value: Any, line: int, fields: Fields) -> None:
    widths = at_end(value, "low")
    if isinstance(widths, list | tuple) and all(isinstance(width, int) for width in widths):
        fields.put("net_arch", list(value), line)
    else:
        fields.miss("net_arch", "no list of numbers", line)


def _assigned(script: Script, holder: str, attribute: str) -> tuple[Any, int]:
    line = 0
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign) and name_of(node.targets[0]) == f"{holder}.{attribute}":
            line = node.lineno
    if not line:
        return None, 0
    for names in (script.names, *(call.names for call in reversed(script.calls))):
        value = names.get(f"{holder}.{attribute}")
        if value is not None:
            return value, line
    return Unknown(f"{holder}.{attribute}"), line


def _environment(script: Script, call: Call, fields: Fields) -> None:
    try:
        table = call.value("env_args", 2, {})
    except Unknown as unknown:
        fields.miss("observation", unknown.what, call.line)
        return
    if not isinstance(table, dict):
        return
    state, action = table.get("state_dim"), table.get("action_dim")
    if isinstance(table.get("env_name"), str):
        fields.put("env", table["env_name"], call.line)
    if isinstance(state, int) and state > 0:
        fields.put("observation", str(state), call.line)
    elif isinstance(state, tuple | list):
        fields.put("observation", "x".join(map(str, state)), call.line)
    if isinstance(action, int) and action > 0:
        kind = "discrete" if table.get("if_discrete") is True else "box"
        fields.put("action", f"{kind}:{action}", call.line)
    if isinstance(table.get("num_envs"), int):
        fields.put("n_envs", table["num_envs"], call.line)
    if isinstance(table.get("max_step"), int):
        fields.put("episode_length", table["max_step"], call.line)
