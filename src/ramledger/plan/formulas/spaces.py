"""Observation and action spaces as text: "144x160x3:uint8", "discrete:7", "box:6"."""

import math
import re
from dataclasses import dataclass, replace
from typing import Literal

from ramledger.errors import ConfigError

ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "bfloat16": 2,
    "uint32": 4, "int32": 4, "float32": 4, "uint64": 8, "int64": 8, "float64": 8,
}  # fmt: skip
MAX_ELEMENTS = 1 << 40
MAX_DIGITS = 18
MAX_DIMENSIONS = 100_000
_BOUNDS = f"a shape must have sizes of at least 1 and at most {MAX_ELEMENTS:,} elements"

OBSERVATION_HINT = "write a shape and a dtype, such as 144x160x3:uint8 or 71:float32"
ACTION_HINT = "write discrete:7, box:6, multidiscrete:3,5,2 or multibinary:4"

_SHAPE = re.compile(r"\s*(\d+(?:\s*[x×,*]\s*\d+)*)\s*(?::\s*(\w+))?\s*")

ActionKind = Literal["discrete", "box", "multidiscrete", "multibinary"]
ACTION_KINDS: tuple[ActionKind, ...] = ("discrete", "box", "multidiscrete", "multibinary")


@dataclass(frozen=True, slots=True)
class Box:
    """An array that an environment hands out; `one_hot` is its width once a network sees it."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    one_hot: int = 0

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def item_bytes(self) -> int:
        return ITEM_BYTES[self.dtype]

    @property
    def stored_bytes(self) -> int:
        return self.elements * self.item_bytes

    @property
    def network_inputs(self) -> int:
        """How many numbers the first layer reads."""
        return self.one_hot or self.elements

    @property
    def is_image(self) -> bool:
        """As stable-baselines3 sees it: three dimensions of bytes."""
        return len(self.shape) == 3 and self.dtype == "uint8"

    def stacked(self, frames: int, channels_first: bool) -> "Box":
        """The same observation `frames` times, along its channels."""
        if frames == 1:
            return self
        axis = 0 if channels_first or len(self.shape) == 1 else len(self.shape) - 1
        shape = tuple(n * frames if at == axis else n for at, n in enumerate(self.shape))
        return replace(self, shape=shape)

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape)) or '1'}:{self.dtype}"


@dataclass(frozen=True, slots=True)
class Action:
    """What an agent answers with; `sizes` are choices for discrete kinds, else dimensions."""

    kind: ActionKind
    sizes: tuple[int, ...]

    @property
    def stored_dimensions(self) -> int:
        """Numbers stored per step."""
        return {"discrete": 1, "multidiscrete": len(self.sizes)}.get(
            self.kind, math.prod(self.sizes)
        )

    @property
    def outputs(self) -> int:
        """Width of the network's last layer."""
        return sum(self.sizes) if self.kind == "multidiscrete" else math.prod(self.sizes)

    @property
    def item_bytes(self) -> int:
        """Bytes of one stored number: gymnasium's dtypes, float64 boxes cast to float32."""
        return {"box": 4, "multibinary": 1}.get(self.kind, 8)

    @property
    def is_continuous(self) -> bool:
        return self.kind == "box"

    def __str__(self) -> str:
        return f"{self.kind}:{','.join(map(str, self.sizes))}"


Observation = dict[str, Box]
"""One box under the name '', or the boxes of a Dict observation."""


def parse_box(text: str, where: str = "observation") -> Box:
    """Read "144x160x3:uint8"; without a dtype, three dimensions are an image of bytes."""
    if text.strip().lower().startswith("discrete:"):
        return _discrete_box(text, where)
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise ConfigError(f"{where}: not a shape: {text!r}", hint=OBSERVATION_HINT)
    shape = _sizes(match[1])
    dtype = match[2] or ("uint8" if len(shape) == 3 else "float32")
    if dtype not in ITEM_BYTES:
        raise ConfigError(
            f"{where}: unknown dtype {dtype!r} in {text!r}",
            hint=f"dtypes: {', '.join(ITEM_BYTES)}",
        )
    if not all(shape) or math.prod(shape) > MAX_ELEMENTS:
        raise ConfigError(f"{where}: {_BOUNDS}, got {text!r}", hint=OBSERVATION_HINT)
    return Box(shape, dtype)


def _discrete_box(text: str, where: str) -> Box:
    sizes = _numbers(text.partition(":")[2], where, text)
    return Box((1,) if len(sizes) == 1 else (len(sizes),), "int64", one_hot=sum(sizes))


def parse_action(text: str, where: str = "action") -> Action:
    """Read "discrete:7", "box:6", "multidiscrete:3,5,2" or "multibinary:4"."""
    name, _, rest = text.strip().lower().replace("_", "").replace("-", "").partition(":")
    kind = next((kind for kind in ACTION_KINDS if kind == name), None)
    if kind is None:
        raise ConfigError(f"{where}: not an action space: {text!r}", hint=ACTION_HINT)
    return Action(kind, _numbers(rest, where, text))


def _sizes(text: str) -> tuple[int, ...]:
    """The numbers in a text; one that is too long for a size becomes 0, which is refused."""
    found = re.findall(r"\d+", text)
    if len(found) > MAX_DIMENSIONS:
        return (0,)
    return tuple(int(number) if len(number) <= MAX_DIGITS else 0 for number in found)


def _numbers(text: str, where: str, whole: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\s*\d+(?:\s*[x×,*]\s*\d+)*\s*", text):
        raise ConfigError(f"{where}: not sizes: {whole!r}", hint=ACTION_HINT)
    numbers = _sizes(text)
    if not all(numbers) or math.prod(numbers) > MAX_ELEMENTS:
        raise ConfigError(f"{where}: {_BOUNDS}, got {whole!r}", hint=ACTION_HINT)
    return numbers
