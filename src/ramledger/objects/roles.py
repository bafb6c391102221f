"""Recognizes networks, optimizers, environments and replay buffers by their class.

Matched by top-level package and class name anywhere in the MRO: nothing is imported, and a
framework may move its files.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ramledger.interpreter.attributes import instance_dict
from ramledger.interpreter.type_facts import ancestors, module_of, once_a_type, package_and_name


@dataclass(frozen=True, slots=True)
class Role:
    """What an instance of a known class is, and how its account is formed."""

    account: str
    by_name: bool = False  # append the attribute that holds it: networks/actor
    by_field: bool = False  # append its own fields: replay/observations


NETWORK = Role("networks", by_name=True)
OPTIMIZER = Role("optimizer")
ENVIRONMENT = Role("env")
REPLAY = Role("replay", by_field=True)
ROLLOUT = Role("rollout", by_field=True)

_ROLES: Mapping[tuple[str, str], Role] = {
    ("torch", "Module"): NETWORK,
    ("keras", "Layer"): NETWORK,
    ("torch", "Optimizer"): OPTIMIZER,
    ("keras", "BaseOptimizer"): OPTIMIZER,
    ("gymnasium", "Env"): ENVIRONMENT,
    ("gymnasium", "VectorEnv"): ENVIRONMENT,
    ("gym", "Env"): ENVIRONMENT,
    ("pettingzoo", "AECEnv"): ENVIRONMENT,
    ("pettingzoo", "ParallelEnv"): ENVIRONMENT,
    ("stable_baselines3", "VecEnv"): ENVIRONMENT,
    ("stable_baselines3", "RolloutBuffer"): ROLLOUT,
    ("stable_baselines3", "DictRolloutBuffer"): ROLLOUT,
    ("stable_baselines3", "BaseBuffer"): REPLAY,
    ("torchrl", "ReplayBuffer"): REPLAY,
    ("torchrl", "Storage"): REPLAY,
    ("tianshou", "ReplayBuffer"): REPLAY,
    ("cpprb", "ReplayBuffer"): REPLAY,
    ("ray", "ReplayBuffer"): REPLAY,
    ("ray", "EpisodeReplayBuffer"): REPLAY,
    ("elegantrl", "ReplayBuffer"): REPLAY,
    ("agilerl", "ReplayBuffer"): REPLAY,
    ("cleanrl_utils", "RolloutBuffer"): ROLLOUT,
    ("cleanrl_utils", "BaseBuffer"): REPLAY,
    ("ramledger", "ReplayBuffer"): REPLAY,
}

_FILL_FIELDS = (
    # (position, "is full" flag, capacity) as the buffers above name them
    ("pos", "full", "buffer_size"),  # stable-baselines3
    ("p", "if_full", "max_size"),  # elegantrl
    ("_size", None, "maxsize"),  # tianshou
    ("_len_value", None, "max_size"),  # torchrl storages
    ("_size", None, "max_size"),  # agilerl
    ("size", None, "capacity"),
    ("_num_timesteps", None, "capacity"),  # rllib's episodes
)


@once_a_type
def role_of(kind: type) -> Role | None:
    """The role of a class, from its MRO; most derived match first."""
    for ancestor in ancestors(kind):
        role = _ROLES.get(package_and_name(ancestor))
        if role is not None:
            return role
    return None


def keeps_account(role: Role, account: str) -> bool:
    """A sub-network stays with its network, a wrapped env with its env; a buffer does not."""
    if role is NETWORK:
        return account.startswith(("networks/", "optimizer"))
    if role is OPTIMIZER:
        return False
    return account.partition("/")[0] == role.account


_OF_USERS = ("replay", "train", "remedies")  # rooms whose objects are the program's


@once_a_type
def is_instrument(kind: type) -> bool:
    """Whether instances observe the program: they are never among what it holds."""
    package, _, rest = module_of(kind).partition(".")
    return (
        package == "ramledger" and rest.partition(".")[0] not in _OF_USERS and role_of(kind) is None
    )


def fill_of(attributes: Mapping[str, Any]) -> float | None:
    """How full a buffer says it is, from its own counters."""
    for position_name, full_name, capacity_name in _FILL_FIELDS:
        position = _plain(attributes.get(position_name))
        capacity = attributes.get(capacity_name)
        if type(position) is int and type(capacity) is int and capacity > 0:
            if full_name and attributes.get(full_name) is True:
                return 1.0
            return min(1.0, position / capacity)
    return None


def _plain(value: Any) -> Any:
    """The value of a multiprocessing counter, read without its lock; other values unchanged."""
    if package_and_name(type(value)) == ("multiprocessing", "Synchronized"):
        counter: Any = (instance_dict(value) or {}).get("_obj")
        return counter.value if package_and_name(type(counter))[0] == "ctypes" else None
    return value


_CAPACITY_NAMES = ("capacity", "max_size", "maxsize", "maxlen", "buffer_size", "max_len")


_CAPACITY_SPELLINGS = frozenset(_CAPACITY_NAMES) | {f"_{name}" for name in _CAPACITY_NAMES}


def stated_capacity(attributes: Mapping[str, Any]) -> int | None:
    """The maximum length of its containers that an object states."""
    if _CAPACITY_SPELLINGS.isdisjoint(attributes):
        return None
    for name in _CAPACITY_NAMES:
        for spelled in (name, "_" + name):
            value = attributes.get(spelled)
            if type(value) is int and value > 1:
                return value
    return None


def capacity_of(container: Any, stated: int | None) -> int | None:
    """The maximum length of a container: a deque's own, else the one its owner states."""
    if issubclass(type(container), deque):
        return deque.maxlen.__get__(container) or stated
    return stated
