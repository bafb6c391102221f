"""`--probe module:make_env`: build one environment in a subprocess, under a limit, and measure.

The only place of the planner that runs code of the user's, and only because it was asked to.
"""

import json
import re
import subprocess
import sys
from typing import Any

from ramledger.errors import ConfigError, MeasureError
from ramledger.units import GIB, format_bytes

_SECONDS = 180
_LIMIT_BYTES = 16 * GIB
_PROGRAM = """
import importlib, json, os, resource, sys
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


def probe_environment(name: str, *, steps: int = 200) -> dict[str, Any]:
    """Fields of a config: spaces, the length of an episode, and what a second env adds."""
    if not re.fullmatch(r"[\w.]+:[\w.]+", name):
        raise ConfigError(
            f"--probe {name}: not module:function", hint="--probe 'my_package.envs:make_env'"
        )
    command = [sys.executable, "-c", _PROGRAM, name, str(_LIMIT_BYTES), str(steps)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise MeasureError(
            f"--probe {name}: no answer in {_SECONDS} s", hint="give its shapes with --obs instead"
        ) from None
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        why = lines[-1] if lines else f"exit code {done.returncode}"
        limit = format_bytes(_LIMIT_BYTES)
        raise MeasureError(
            f"--probe {name}: {why}",
            hint=f"it ran in this folder, with at most {limit}; try it in Python first",
        ) from None
    return found
