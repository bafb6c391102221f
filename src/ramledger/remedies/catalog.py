"""The remedies by name: what `--apply` takes, which change no result, and how they reach a process.

The command starts with `RAMLEDGER_APPLY` and variables of malloc; each Python process of it then
puts its own part in force (`remedies.start`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ramledger.errors import ConfigError
from ramledger.remedies.malloc_choice import MallocChoice, allowed

APPLY_VARIABLE = "RAMLEDGER_APPLY"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Remedy:
    """One remedy. `is_exact`: the training computes the same numbers, bit for bit."""

    name: str
    does: str
    is_exact: bool = True
    in_auto: bool = True
    options: tuple[str, ...] = ()


REMEDIES = {
    remedy.name: remedy
    for remedy in (
        Remedy(
            "replay",
            "replay buffers of stable-baselines3 store each observation and each frame once",
            options=("lz4",),
        ),
        Remedy(
            "rollout",
            "rollouts of stable-baselines3 store each frame once, and are not copied for updates",
        ),
        Remedy("workers", "worker processes share the libraries that their fork server imports"),
        Remedy("malloc", "malloc gives freed memory back", in_auto=False),
        Remedy(
            "threads",
            "worker processes compute with one thread each",
            is_exact=False,
            in_auto=False,
        ),
    )
}


def parse_apply(text: str) -> dict[str, str]:
    """`replay=lz4,workers` by name, with the option of each; `auto`: what is exact and pays."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, option = part.partition("=")
        if name == AUTO and not option:
            found |= {one.name: "" for one in REMEDIES.values() if one.in_auto}
            continue
        remedy = REMEDIES.get(name)
        if remedy is None:
            known = ", ".join((AUTO, *REMEDIES))
            raise ConfigError(f"there is no remedy {name!r}", hint=f"--apply takes {known}")
        if option and option not in remedy.options:
            allowed = ", ".join(f"{name}={one}" for one in remedy.options) or name
            raise ConfigError(f"{name} has no option {option!r}", hint=f"--apply {allowed}")
        found[name] = option
    if not found:
        raise ConfigError("--apply names no remedy", hint=f"--apply {AUTO}")
    return found


def environment_for(
    asked: Mapping[str, str], present: Mapping[str, str], malloc: MallocChoice
) -> dict[str, str]:
    """Variables for the command; what the user has set stays."""
    if "malloc" not in asked:
        return {APPLY_VARIABLE: json.dumps(dict(asked))}
    chosen = allowed(malloc, present)
    # the line that the process says when it starts is the option of the remedy there
    return {APPLY_VARIABLE: json.dumps({**asked, "malloc": chosen.why}), **chosen.variables}


def asked_of(environment: Mapping[str, str]) -> dict[str, str]:
    """What this process is to put in force; nothing where the variable is not ours."""
    try:
        found = json.loads(environment.get(APPLY_VARIABLE, "{}"))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(name): str(option) for name, option in found.items() if name in REMEDIES}
