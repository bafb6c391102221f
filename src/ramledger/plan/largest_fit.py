"""The largest n_envs, buffer_size, n_steps or batch_size of which the high estimate fits."""

import msgspec

from ramledger.errors import ConfigError, RamledgerError
from ramledger.plan.budget import Budget
from ramledger.plan.plan_config import Config
from ramledger.plan.predict import Setting, budget_of

SOLVABLE = ("n_envs", "buffer_size", "batch_size", "n_steps", "population", "num_env_runners")
_MOST = {"n_envs": 4096, "population": 65536, "num_env_runners": 4096}
_MOST_OTHER = 10**11


def largest(config: Config, field: str, setting: Setting) -> int | None:
    """The largest value of `field` that fits; None when not even 1 does."""
    if field not in SOLVABLE:
        raise ConfigError(
            f"--maximize must be one of {', '.join(SOLVABLE)}, got {field}",
            hint="--maximize n_envs",
        )
    # a buffer that the planned steps do not fill would be free of charge
    config = msgspec.structs.replace(config, total_steps=None)
    low, high = 0, 1
    most = _MOST.get(field, _MOST_OTHER)
    while high <= most and _fits(config, field, high, setting):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(config, field, middle, setting):
            low = middle
        else:
            high = middle
    if low == 0:
        return None
    return _round(field, low)


def changed_budget(config: Config, field: str, value: int, setting: Setting) -> Budget:
    """The budget with that one value changed."""
    return budget_of(msgspec.structs.replace(config, **{field: value}), setting)


def _fits(config: Config, field: str, value: int, setting: Setting) -> bool:
    try:
        budget = changed_budget(config, field, value, setting)
    except RamledgerError:
        return False
    rooms = (budget.ram, budget.vram)
    return not budget.refused and all(
        r.limit_bytes is None or r.needed.high <= r.limit_bytes for r in rooms
    )


def _round(field: str, value: int) -> int:
    """Down to a number that people write: powers of two for batches, two digits otherwise."""
    if field == "batch_size":
        return 1 << (value.bit_length() - 1)
    if field in ("n_envs", "population", "num_env_runners") or value < 100:
        return value
    step: int = 10 ** (len(str(value)) - 2)
    return value // step * step
