"""What a transition is made of, as plain data, and what it costs before anything is allocated.

An observation field is stored once a row; the next observation is the following row. A step field
(action, reward, extras) is stored once a transition.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ramledger.errors import ConfigError

MAX_STACK = 1 << 14
START_BYTES = 4  # which row a transition starts at
FLAG_BYTES = 1  # terminated, truncated and how it is tied to its neighbors
HISTORY_BYTES = 2  # a row of stacked frames: how many rows before it belong to its episode
FIXED_NAMES = frozenset({"terminated", "truncated", "index", "weight", "discount", "mask"})


@dataclass(frozen=True, slots=True)
class Field:
    """An array of one shape and dtype."""

    shape: tuple[int, ...] = ()
    dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.shape))
        object.__setattr__(self, "dtype", _checked_dtype(self.dtype))

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Frames:
    """A stack of the latest `stack` frames. `shape` is that of one frame, `axis` the stacked one.

    One frame a step is stored; stacks are rebuilt when they are sampled.
    """

    shape: tuple[int, ...]
    dtype: str = "uint8"
    stack: int = 4
    axis: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.shape))
        object.__setattr__(self, "dtype", _checked_dtype(self.dtype))
        if not 1 <= self.stack <= MAX_STACK:
            raise ConfigError(f"stack must be between 1 and {MAX_STACK}, got {self.stack}")
        if self.axis not in (0, -1):
            raise ConfigError(f"axis must be 0 (first) or -1 (last), got {self.axis}")

    @property
    def frame(self) -> Field:
        return Field(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class TableWindow:
    """The `length` rows of a registered table that end at a position; only that is stored."""

    table: str
    length: int

    def __post_init__(self) -> None:
        if not self.table or self.length < 1:
            raise ConfigError(
                "a TableWindow needs a table and a length of at least 1, "
                f"got {self.table!r} and {self.length}",
                hint='for example TableWindow("market", 504)',
            )

    @property
    def position(self) -> Field:
        return Field((), "int32")


ObservationField = Field | Frames | TableWindow


@dataclass(frozen=True, slots=True)
class Goals:
    """Which observation fields are goals, for relabeling in hindsight."""

    achieved: str = "achieved_goal"
    desired: str = "desired_goal"


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of a transition. A single observation field is an array, a mapping a dict."""

    observation: ObservationField | Mapping[str, ObservationField]
    action: Field = field(default_factory=Field)
    reward: Field = field(default_factory=Field)
    extra: Mapping[str, Field] = field(default_factory=dict)
    goals: Goals | None = None

    def __post_init__(self) -> None:
        names = [*self.rows, "action", "reward", *self.extra]
        for name in names:
            if not name.isidentifier() or name.startswith("_") or name in FIXED_NAMES:
                raise ConfigError(
                    f"a field cannot be called {name!r}",
                    hint="use a plain name that is not one of " + ", ".join(sorted(FIXED_NAMES)),
                )
        if len(set(names)) != len(names) or not self.rows:
            raise ConfigError(
                f"no observation, or two fields of one name: {', '.join(names)}",
                hint="observation, action, reward and extra fields share one namespace",
            )
        goals = {self.goals.achieved, self.goals.desired} if self.goals else set()
        plain = {name for name, kind in self.observations.items() if isinstance(kind, Field)}
        if not goals <= plain:
            raise ConfigError(
                "goals must be plain fields of the observation",
                hint=f"its fields are {', '.join(self.rows)}",
            )

    @property
    def is_dict(self) -> bool:
        return isinstance(self.observation, Mapping)

    @property
    def observations(self) -> dict[str, ObservationField]:
        """Observation fields by name; a single one is called `obs`."""
        if isinstance(self.observation, Mapping):
            return dict(self.observation)
        return {"obs": self.observation}

    @property
    def rows(self) -> dict[str, Field]:
        """What one row stores: a value, one frame of a stack, or a position in a table."""
        return {name: _row_of(kind) for name, kind in self.observations.items()}

    @property
    def steps(self) -> dict[str, Field]:
        """What a transition stores besides its rows."""
        return {"action": self.action, "reward": self.reward, **self.extra}

    @property
    def stack(self) -> int:
        """The longest stack: so many rows in a sequence an observation may need."""
        found = [kind.stack for kind in self.observations.values() if isinstance(kind, Frames)]
        return max(found, default=1)

    @property
    def row_bytes(self) -> int:
        history = HISTORY_BYTES if self.stack > 1 else 0
        return sum(row.bytes for row in self.rows.values()) + history

    @property
    def step_bytes(self) -> int:
        return sum(step.bytes for step in self.steps.values()) + START_BYTES + FLAG_BYTES

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        observation: Any = {k: _field_to_dict(v) for k, v in self.observations.items()}
        return {
            "observation": observation if self.is_dict else observation["obs"],
            "action": _field_to_dict(self.action),
            "reward": _field_to_dict(self.reward),
            "extra": {name: _field_to_dict(kind) for name, kind in self.extra.items()},
            "goals": [self.goals.achieved, self.goals.desired] if self.goals else None,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "Schema":
        """Read plain data; fields are mappings with `shape` and `dtype`."""
        try:
            return cls(
                observation=_observation_from(found["observation"]),
                action=_step_from(found.get("action", {})),
                reward=_step_from(found.get("reward", {})),
                extra={name: _step_from(kind) for name, kind in found.get("extra", {}).items()},
                goals=Goals(*found["goals"]) if found.get("goals") else None,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"not a schema: {error}",
                hint='write {"observation": {"shape": [4], "dtype": "float32"}, "action": {…}}',
            ) from None


def bytes_per_transition(schema: Schema, episode_length: float = math.inf) -> float:
    """Bytes a stored transition takes, known before anything is allocated.

    An episode keeps one row more than it has steps; with `episode_length` that row is counted.
    Where the first stack of an episode holds real history, as windows over data do, it takes
    `stack - 1` rows more, and those are counted by `bytes_per_transition_with_history`.
    """
    return schema.row_bytes * (1 + 1 / episode_length) + schema.step_bytes


def bytes_per_transition_with_history(schema: Schema, episode_length: float) -> float:
    """The same where every episode starts with a stack of different frames."""
    rows = 1 + schema.stack / episode_length
    return schema.row_bytes * rows + schema.step_bytes


def _row_of(kind: ObservationField) -> Field:
    if isinstance(kind, Frames):
        return kind.frame
    return kind.position if isinstance(kind, TableWindow) else kind


def _checked_shape(shape: Any) -> tuple[int, ...]:
    try:
        found = tuple(int(side) for side in shape)
    except TypeError:
        found = (-1,)
    if any(side < 1 for side in found):
        raise ConfigError(f"shape must be a tuple of positive sizes, got {shape!r}")
    return found


def _checked_dtype(dtype: Any) -> str:
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in "biufc" or not found.isnative:
        raise ConfigError(
            f"not a numeric dtype: {dtype!r}", hint="use a name such as 'float32' or 'uint8'"
        )
    return str(found.name)


def _field_to_dict(kind: ObservationField) -> dict[str, Any]:
    if isinstance(kind, TableWindow):
        return {"table": kind.table, "length": kind.length}
    found: dict[str, Any] = {"shape": list(kind.shape), "dtype": kind.dtype}
    if isinstance(kind, Frames):
        found |= {"stack": kind.stack, "axis": kind.axis}
    return found


def _observation_from(found: Mapping[str, Any]) -> ObservationField | dict[str, ObservationField]:
    if "table" in found or "shape" in found:
        return _observation_field_from(found)
    return {name: _observation_field_from(kind) for name, kind in found.items()}


def _observation_field_from(found: Mapping[str, Any]) -> ObservationField:
    if "table" in found:
        return TableWindow(found["table"], found["length"])
    if "stack" in found:
        return Frames(**{**found, "shape": tuple(found["shape"])})
    return _step_from(found)


def _step_from(found: Mapping[str, Any]) -> Field:
    return Field(tuple(found.get("shape", ())), found.get("dtype", "float32"))
