"""ElegantRL: defaults, buffers, workers, and `Config(AgentTD3, env_class, env_args)` in scripts.

Sources: elegantrl/train/config.py and elegantrl/train/replay_buffer.py, 0.3.6.
"""

import ast
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from ramledger.plan.budget import Span
from ramledger.plan.formulas.algorithms import DQN, PPO, SAC, TD3
from ramledger.plan.formulas.buffers import FLOAT, Array, Storage
from ramledger.plan.formulas.process_costs import Workers
from ramledger.plan.job import Framework, Job
from ramledger.plan.sources.expressions import Unknown, at_end, name_of
from ramledger.plan.sources.script_fields import Fields
from ramledger.plan.sources.script_scopes import Call, Script

ALGORITHMS = (
    replace(PPO, n_steps=2000, batch_size=128, n_epochs=8, mlp_arch=(64, 32)),
    replace(PPO, name="A2C", n_steps=2000, batch_size=128, n_epochs=8, mlp_arch=(64, 32)),
    replace(DQN, buffer_size=1_000_000, batch_size=64, mlp_arch=(64, 32)),
    replace(SAC, batch_size=64, mlp_arch=(64, 32)),
    replace(TD3, batch_size=64, mlp_arch=(64, 32)),
    replace(TD3, name="DDPG", n_critics=1, batch_size=64, mlp_arch=(64, 32)),
)

# ---- formulas ----------------------------------------------------------------------------------


def storage(job: Job) -> Storage:
    """The buffer of a training."""
    return _rollout(job) if job.algorithm.is_on_policy else _replay(job)


def _rollout(job: Job) -> Storage:
    rows = job.rollout_steps
    width = job.observation_elements + job.action.stored_dimensions + 4
    formula = f"{job.n_steps:,} steps × {job.n_envs} envs × {width:,} × 4 B"
    array = Array("rollout/trajectory", rows, width * FLOAT, formula)
    return Storage((array,), rows, array.total_bytes, job.config.device == "cuda")


def _replay(job: Job) -> Storage:
    # not divided by the environments: each has a ring of buffer_size of its own
    rows = job.buffer_size * job.n_envs
    width = job.observation_elements + job.action.stored_dimensions + 2
    formula = f"{job.buffer_size:,} × {job.n_envs} envs × {width:,} × 4 B"
    array = Array("replay/transitions", rows, width * FLOAT, formula)
    return Storage((array,), rows, on_gpu=job.config.device == "cuda")


def _installed_extras() -> tuple[str, ...]:
    # its evaluator draws the learning curve
    return ("matplotlib",) if find_spec("matplotlib") is not None else ()


def _workers(job: Job, child_bytes: int) -> Workers | None:
    count = job.config.num_env_runners
    if not count:
        return None
    each = child_bytes + job.env_bytes
    span = Span.around(count * each, 0.85, 1.25)
    return Workers(count, span, f"{count} × {each:,} B (ElegantRL worker)")


ELEGANTRL = Framework(
    "elegantrl", ALGORITHMS, import_mb=3.3, storage=storage, installed_extras=_installed_extras,
    workers=_workers, critic_heads=True,
)  # fmt: skip

# ---- scripts -----------------------------------------------------------------------------------

_SET = {
    "net_dims": "net_arch", "batch_size": "batch_size", "buffer_size": "buffer_size",
    "horizon_len": "n_steps", "break_step": "total_steps", "num_workers": "num_env_runners",
    "num_threads": "torch_threads",
    # of Arguments, before 0.3.3
    "net_dim": "net_arch", "max_memo": "buffer_size", "max_replay_buf": "buffer_size",
    "target_step": "n_steps", "rollout_num": "num_env_runners", "worker_num": "num_env_runners",
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
    if not name.startswith("Agent") or name == "Agent":
        name = _made_agent(script, call) or name
    if name.startswith("Agent") and name != "Agent":
        fields.put("algorithm", name.removeprefix("Agent"), call.line)
    else:
        fields.miss("algorithm", name or "not given", call.line)
    _environment(script, call, fields)
    holder = call.target or "args"
    for attribute, field in _SET.items():
        value, line = _assigned(script, holder, attribute)
        if value is None or field in fields.values:
            continue
        if isinstance(value, Unknown):
            fields.miss(field, value.what, line)
        elif field == "net_arch":
            _put_widths(value, line, fields)
        else:
            fields.put_count(field, value, line)


def _made_agent(script: Script, call: Call) -> str:
    """`args.agent = AgentSAC()` and `Arguments(agent=AgentSAC())`, as they were before 0.3.3."""
    holder = call.target or "args"
    values: list[ast.expr] = [*call.node.args, *(k.value for k in call.node.keywords)]
    values += [
        node.value
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Assign) and name_of(node.targets[0]) == f"{holder}.agent"
    ]
    names = [name_of(node.func if isinstance(node, ast.Call) else node) for node in values]
    last = [name.rpartition(".")[2] for name in names]
    return next((name for name in last if name.startswith("Agent") and name != "Agent"), "")


def _put_widths(value: Any, line: int, fields: Fields) -> None:
    if isinstance(value, int):
        value = [value, value]  # net_dim is the width of both hidden layers
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


def _preprocessed(script: Script, fields: Fields) -> None:
    """`args.env = PreprocessEnv("Pendulum-v0")`, as it was before 0.3.3."""
    for made in script.find("PreprocessEnv", "build_env"):
        with suppress(Unknown):
            value = made.value("env", 0)
            if isinstance(value, str) and "env" not in fields.values:
                fields.put("env", value, made.line)


def _environment(script: Script, call: Call, fields: Fields) -> None:
    _preprocessed(script, fields)
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
