"""What the user says on the command line, as fields of a config or names of a script."""

from collections.abc import Mapping, Sequence
from typing import Any

from ramledger.errors import ConfigError
from ramledger.plan.sources.expressions import Unknown, parsed, value_of
from ramledger.units import parse_bytes


def given_values(
    assignments: Sequence[str],
    machine: Mapping[str, Any],
    *,
    obs: str | None = None,
    action: str | None = None,
    env: str = "",
) -> dict[str, Any]:
    """One table from `--set A=1 --obs 84x84x3:uint8 --ram 32GiB`."""
    values: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set must be NAME=VALUE, got {text}", hint="--set n_envs=4")
        _put(values, name.strip(), _plain(value.strip()))
    for name, given in (("observation", obs), ("action", action), ("env", env or None)):
        if given is not None:
            values[name] = given
    known = {name: value for name, value in machine.items() if value is not None}
    for name in ("ram", "vram"):
        if name in known:
            known[name] = parse_bytes(known[name])
    if known:
        values["machine"] = known
    return values


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    """`callbacks.save_replay_buffer` is a field of a table."""
    first, dot, rest = name.partition(".")
    if dot and first in ("callbacks", "machine", "trainer", "versions"):
        values.setdefault(first, {})[rest] = value
    else:
        values[name] = value


def _plain(text: str) -> Any:
    """A literal (4, 2**14, [256, 256], True) or the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return value_of(parsed(text))
    except Unknown:
        return text
