"""`--probe module:make_env`: one environment and one policy, in a subprocess with a limit.

Only this and `--network` run the user's code, because they are asked to.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ramledger.errors import ConfigError, MeasureError
from ramledger.plan.complete_config import complete, policy_of
from ramledger.plan.job import Job
from ramledger.plan.predict import Setting, default_setting, measured_setting
from ramledger.plan.sources.source_result import Reading
from ramledger.plan.target_machine import hardware
from ramledger.units import GIB, format_bytes, parse_bytes

_SECONDS = 180
_LIMIT_BYTES = 16 * GIB
_BUILDING = """
import importlib, json, os, resource, sys, time
name, limit, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
sys.path.insert(0, os.getcwd())
answer, sys.stdout = sys.stdout, sys.stderr
def rss():
    with open("/proc/self/status") as status:
        return next(int(l.split()[1]) for l in status if l.startswith("VmRSS:")) * 1024
module, _, function = name.partition(":")
import numpy, gymnasium
make = importlib.import_module(module)
for part in function.split("."):
    make = getattr(make, part)
def built():
    env = make()
    while callable(env) and not hasattr(env, "observation_space"):
        env = env()
    env.reset()
    return env
"""
_ENVIRONMENT = """
def box(space):
    kind = type(space).__name__
    if kind == "Discrete":
        return f"discrete:{int(space.n)}"
    if kind == "MultiDiscrete":
        return "discrete:" + ",".join(str(int(n)) for n in space.nvec)
    return "x".join(str(n) for n in space.shape) + f":{space.dtype}"
def action(space):
    kind = type(space).__name__
    if kind == "Discrete":
        return f"discrete:{int(space.n)}"
    if kind == "MultiDiscrete":
        return "multidiscrete:" + ",".join(str(int(n)) for n in space.nvec)
    if kind == "MultiBinary":
        return f"multibinary:{int(space.n)}"
    return "box:" + ",".join(str(n) for n in space.shape)
first = built()
length = None
for step in range(steps):
    _, _, terminated, truncated, *_ = first.step(first.action_space.sample())
    if terminated or truncated:
        length = length or step + 1
        first.reset()
before = rss()
second = built()
for step in range(steps):
    _, _, terminated, truncated, *_ = second.step(second.action_space.sample())
    if terminated or truncated:
        second.reset()
found = {"env_memory": max(rss() - before, 0), "action": action(first.action_space)}
space = first.observation_space
if type(space).__name__ == "Dict":
    found["observation"] = {key: box(part) for key, part in space.spaces.items()}
else:
    found["observation"] = box(space)
if length:
    found["episode_length"] = length
print(json.dumps(found), file=answer)
answer.flush()
os._exit(0)
"""
_POLICY = """
algorithm, policy, options = sys.argv[4], sys.argv[5], json.loads(sys.argv[6])
env = built()
try:
    import stable_baselines3 as library
    if not hasattr(library, algorithm):
        import sb3_contrib as library
    kind = getattr(library, algorithm)
except (ImportError, AttributeError):
    print(json.dumps({"missing": f"{algorithm} of stable-baselines3 is not installed here"}),
          file=answer)
    answer.flush()
    os._exit(0)
import torch
torch.set_num_threads(1)
imported = rss()
torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
optimizer = rss() - imported
small = {"n_steps": 2} if hasattr(kind, "collect_rollouts") and options["on_policy"] else {}
if not options["on_policy"]:
    small = {"buffer_size": 1}
model = kind(policy, env, device="cpu", policy_kwargs=options["policy_kwargs"], **small)
vector = model.get_env()
seen = vector.reset()
state, begun = None, None
for step in range(steps):
    action, state = model.predict(seen, state)
    seen, *_ = vector.step(action)
    # the first steps load code
    if step == steps // 10:
        begun = time.perf_counter()
speed = (steps - steps // 10 - 1) / (time.perf_counter() - begun)
parameters = list(model.policy.parameters())
print(json.dumps({
    "imported_bytes": imported,
    "optimizer_bytes": optimizer,
    "parameters": sum(p.numel() for p in parameters),
    "steps_per_second": round(speed, 1),
}), file=answer)
answer.flush()
os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a process with the environment's imports and one policy was measured to take."""

    imported_bytes: int
    optimizer_bytes: int
    parameters: int
    steps_per_second: float


def probe_environment(name: str, *, steps: int = 200) -> dict[str, Any]:
    """Fields of a config: spaces, the length of an episode, and what a second env adds."""
    if not re.fullmatch(r"[\w.]+:[\w.]+", name):
        raise ConfigError(
            f"--probe must be module:function, got {name}",
            hint="--probe 'my_package.envs:make_env'",
        )
    return _answer(name, _ENVIRONMENT, [str(steps)])


def probe_policy(name: str, job: Job, *, steps: int = 200) -> Policy | str:
    """What one policy on that environment takes, or why none was built."""
    if job.config.framework != "sb3":
        return f"policies of {job.config.framework} are not built"
    config = job.config
    network = {
        field: getattr(config, field)
        for field in ("net_arch", "n_critics", "n_quantiles", "share_features_extractor")
        if getattr(config, field) not in (None, True)
    }
    if job.algorithm.is_recurrent:
        network["lstm_hidden_size"] = config.lstm_hidden_size
        network["n_lstm_layers"] = config.n_lstm_layers
    options = {"policy_kwargs": network, "on_policy": job.algorithm.is_on_policy}
    arguments = [str(steps), job.algorithm.name, policy_of(job), json.dumps(options)]
    found = _answer(name, _POLICY, arguments)
    return str(found["missing"]) if "missing" in found else Policy(**found)


def with_policy(reading: Reading, name: str) -> tuple[Reading, Setting]:
    """The reading and its setting, with the measurements of one policy in them."""
    config = reading.config
    job = complete(config, reading.places)
    setting = default_setting(config)
    found = probe_policy(name, job)
    if isinstance(found, str):
        return replace(reading, unresolved=(*reading.unresolved, f"--probe: {found}")), setting
    changes: dict[str, Any] = {}
    if config.steps_per_second is None:
        # acting alone; environments in one process take turns
        beside = min(config.n_envs, hardware(config.machine).cores)
        together = beside if config.vec_env == "subproc" else 1
        changes["steps_per_second"] = found.steps_per_second * together
    if found.parameters != job.modules.total and config.trained_parameters is None:
        changes["trained_parameters"] = found.parameters
    # the environment has a row of its own
    imported = found.imported_bytes - parse_bytes(config.env_memory)
    setting = measured_setting(
        setting.baseline.measured(
            "sb3", imported, found.optimizer_bytes, f"measured by --probe {name}"
        )
    )
    return replace(reading, config=msgspec.structs.replace(config, **changes)), setting


def _answer(name: str, program: str, arguments: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-c", _BUILDING + program, name, str(_LIMIT_BYTES), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise MeasureError(
            f"--probe {name} did not finish within {_SECONDS} s",
            hint="give its shapes with --obs instead",
        ) from None
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        why = lines[-1] if lines else f"exit code {done.returncode}"
        limit = format_bytes(_LIMIT_BYTES)
        raise MeasureError(
            f"--probe {name}: {why}",
            hint=f"it ran in the current folder with a limit of {limit}; call it in Python first",
        ) from None
    return found
