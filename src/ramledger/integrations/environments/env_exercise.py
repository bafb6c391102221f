"""One environment alone, reset and stepped with random actions: what `check-env` records.

`python -m ramledger.integrations.environments.env_exercise FD SPEC RESETS STEPS [rebuild]`
writes how many steps it took to the file FD: stdout is the environment's.
A generation is a twentieth of the resets.
"""

import importlib
import itertools
import os
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ramledger
from ramledger.errors import ConfigError
from ramledger.process_session import ProcessSession

GENERATIONS = 20
_SNAPSHOTS_AFTER = (1, 3, 6, 9, 12, 15, 18, 19)
PHASE = "episodes"
_VERSIONED = re.compile(r"-v\d+$")  # module:Id-v0 is an id that the module registers
_OURS = os.path.dirname(ramledger.__file__)


def maker(spec: str) -> Callable[[], Any]:
    """What `module:make_env` or a Gymnasium id stands for."""
    module_name, _, name = spec.partition(":")
    if name:
        try:
            found = getattr(importlib.import_module(module_name), name, None)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"cannot import {error.name!r} for {spec!r}",
                hint="write the module without .py"
                if module_name.endswith(".py")
                else "run it where the module is, or name one that is installed",
            ) from error
        if callable(found):
            make: Callable[[], Any] = found
            return make
        if not _VERSIONED.search(name):
            raise ConfigError(
                f"{module_name} has no function or class {name!r}", hint="give module:make_env"
            )
    return _registered(spec)


def _registered(spec: str) -> Callable[[], Any]:
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{spec!r} is a Gymnasium id, and gymnasium is not installed",
            hint="pip install 'ramledger[train]', or give module:make_env",
        ) from error
    if spec.startswith("ALE/"):
        with suppress(ModuleNotFoundError):
            importlib.import_module("ale_py")  # registers them
    return lambda: gymnasium.make(spec)


def exercise(make: Callable[[], Any], resets: int, steps: int, *, rebuild: bool) -> int:
    """Run `resets` episodes of at most `steps` steps; the number of steps taken."""
    session = ProcessSession()
    ledger = session.ledger
    env = make()
    if not callable(getattr(env, "reset", None)) or not callable(getattr(env, "step", None)):
        raise ConfigError(
            f"what it makes is of type {type(env).__name__}, without reset() and step()",
            hint="return the environment",
        )
    if not rebuild:
        ledger.claim("env", env)
    env.action_space.seed(0)
    taken = 0
    episodes = [resets * n // GENERATIONS for n in range(GENERATIONS + 1)]
    for generation, (first, last) in enumerate(itertools.pairwise(episodes)):
        with ledger.phase(PHASE, generation=generation):
            for episode in range(first, last):
                if rebuild and episode:
                    env.close()
                    env = make()
                    env.action_space.seed(episode)
                taken += _episode(env, episode, steps)
        if generation in _SNAPSHOTS_AFTER:
            session.record_snapshot(generation=generation, phase=PHASE)
    env.close()
    return taken


def _episode(env: Any, seed: int, steps: int) -> int:
    env.reset(seed=seed)
    for step in range(1, steps + 1):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated is True or truncated is True or _all(terminated) or _all(truncated):
            return step
    return steps


def _all(flags: Any) -> bool:
    """Of a vector environment: its episodes end one by one and restart by themselves."""
    every = getattr(flags, "all", None)
    return bool(every()) if callable(every) else bool(flags)


def main(words: list[str]) -> None:
    sys.path.insert(0, os.getcwd())
    result, spec, resets, steps, *rest = words
    try:
        taken = exercise(maker(spec), int(resets), int(steps), rebuild="rebuild" in rest)
    except ConfigError as error:
        raise SystemExit(f"{error.message}; {error.hint}") from error
    except Exception as error:
        raise SystemExit(_in_one_line(error)) from error
    os.write(int(result), str(taken).encode())


def _in_one_line(error: Exception) -> str:
    """`ValueError: no map (envs.py:12 in reset)`: the last line of code that is no library's."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<")) and "site-packages" not in frame.filename
    ]
    at = [f"({os.path.basename(f.filename)}:{f.lineno} in {f.name})" for f in frames[-1:]]
    return " ".join([f"{type(error).__name__}:", *str(error).split(), *at])


if __name__ == "__main__":
    main(sys.argv[1:])
