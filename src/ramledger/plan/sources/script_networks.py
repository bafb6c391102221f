"""Networks in a script of one's own: the layers of its classes, counted by their arguments.

torch's modules name both widths; flax's and Keras's layers only their own, and read the one before.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ramledger.plan.formulas.networks import linear, lstm
from ramledger.plan.sources.expressions import Unknown, at_end, name_of
from ramledger.plan.sources.script_fields import whole
from ramledger.plan.sources.script_scopes import Call, Script

_BASES = ("Module", "Model", "LightningModule")
_CHAINED = ("Dense", "Conv2D", "Conv")
_MAX_DEPTH = 20
_MOST_PIXELS = 1000


@dataclass(slots=True)
class Layers:
    """What one class, or one function that builds a model, is made of; per copy."""

    name: str
    place: str
    end: Literal["low", "high"] = "low"
    """Which end of what a search varies."""
    parameters: int = 0
    outputs: int = 0
    largest: int = 0
    inputs: int = 0
    """What its first layer reads, if that is a flat one."""
    flat_inputs: int = 0
    """What the first flat layer after its convolutions reads."""
    last: int = 0
    kernels: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Channels in, channels out, kernel and stride of each convolution."""
    unknown: str = ""
    copies: int = 0
    trained: int = 0

    def add(self, parameters: int, outputs: int) -> None:
        self.parameters += parameters
        self.outputs += outputs
        self.largest = max(self.largest, parameters)
        self.last = outputs

    def side_of_image(self) -> int:
        """The smallest square image that its first flat layer fits; 0 if there is none."""
        for side in range(1, _MOST_PIXELS):
            found = self.convolutions(side, side)
            if len(found) == len(self.kernels) and found[-1] == self.flat_inputs:
                return side
        return 0

    def convolutions(self, height: int, width: int) -> list[int]:
        """Outputs of each convolution for an image of that size."""
        found = []
        for _, out, kernel, stride in self.kernels:
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
            if height < 1 or width < 1:
                break
            found.append(out * height * width)
        return found


def find_networks(scripts: Sequence[Script], end: Literal["low", "high"] = "low") -> list[Layers]:
    """Every network that a script makes, with how many of it, the largest first."""
    found: list[Layers] = []
    names = _module_names(scripts)
    for script in scripts:
        modules = {node.name: node for node in script.classes() if node.name in names}
        for name, node in modules.items():
            calls = [call for call in script.calls if call.owner == name]
            layers = _layers(Layers(name, script.place(node.lineno), end), calls)
            if layers is not None:
                layers.copies, layers.trained = _counted(script, name, scripts, 0)
                found.append(layers)
        found += _built_by_functions(script, set(modules), scripts, end)
    used = [layers for layers in found if layers.copies] or found
    for layers in used:
        layers.copies = max(layers.copies, 1)
    return sorted(used, key=lambda layers: -layers.parameters)


def _module_names(scripts: Sequence[Script]) -> set[str]:
    """Classes that derive from a library's Module, at any depth."""
    classes = [node for script in scripts for node in script.classes()]
    found: set[str] = set()
    for _ in range(_MAX_DEPTH):
        more = {
            node.name
            for node in classes
            for base in node.bases
            if (last := name_of(base).rpartition(".")[2]) in _BASES or last in found
        }
        if more == found:
            break
        found = more
    return found


def _built_by_functions(
    script: Script, modules: set[str], scripts: Sequence[Script], end: Literal["low", "high"]
) -> Iterator[Layers]:
    """Keras: `model.add(Dense(24))` in a function; torch: nn.Sequential outside of any class."""
    groups: dict[tuple[str, str], list[Call]] = {}
    for call in script.calls:
        if call.owner not in modules and (call.last in _LAYERS or call.last in _CHAINED):
            groups.setdefault((call.owner, call.function), []).append(call)
    for (owner, function), calls in groups.items():
        name = function or owner or "model"
        layers = _layers(Layers(name, script.place(calls[0].line), end), calls)
        if layers is not None:
            made = [c for s in scripts for c in s.calls if c.last == function] if function else []
            layers.copies = max(len(made), 1)
            layers.trained = max(sum("target" not in call.target for call in made), 1)
            yield layers


def _counted(script: Script, name: str, scripts: Sequence[Script], depth: int) -> tuple[int, int]:
    """How many of a class are made, and how many of them are trained."""
    copies = trained = 0
    if depth > _MAX_DEPTH:
        return 1, 1
    for other in scripts:
        for call in other.calls:
            if call.last != name or not _is_from(call, other, script):
                continue
            within = (1, 1)
            if call.owner and call.owner != name:
                within = _counted(other, call.owner, scripts, depth + 1)
            copies += within[0]
            is_target = "target" in call.target or "tgt" in call.target
            trained += 0 if is_target else within[1]
            copies += _copied(call.target, other) * within[0]
    return copies, trained


def _is_from(call: Call, caller: Script, script: Script) -> bool:
    """Whether a call means this script's class, and not one of the same name elsewhere."""
    if caller is script:
        return True
    if any(node.name == call.last for node in caller.classes()):
        return False
    stem = script.path.rpartition("/")[2].removesuffix(".py")
    return stem in call.name.split(".") or stem == "__init__" or "." not in call.name


def _copied(target: str, script: Script) -> int:
    """`copy.deepcopy(self.actor)` makes a target network."""
    name = target.rpartition(".")[2]
    if not name:
        return 0
    found = [
        call for call in script.find("deepcopy")
        if call.node.args and name_of(call.node.args[0]).rpartition(".")[2] == name
    ]  # fmt: skip
    return len(found)


def _layers(layers: Layers, calls: list[Call]) -> Layers | None:
    seen = False
    for call in calls:
        rule = _LAYERS.get(call.last) or (_chained if call.last in _CHAINED else None)
        if rule is None or call.name.split(".")[0] in ("F", "functional"):
            continue
        seen = True
        try:
            rule(layers, call)
        except (Unknown, TypeError, ValueError, OverflowError) as error:
            what = error.what if isinstance(error, Unknown) else str(error)
            layers.unknown = layers.unknown or f"line {call.line}: {what}"
    return layers if seen else None


def _count(layers: Layers, call: Call, name: str, position: int | None, default: Any = None) -> int:
    value = at_end(call.value(name, position, default), layers.end)
    if isinstance(value, tuple | list) and value:
        value = value[0]
    if value is None:
        raise Unknown(f"{name} of {call.last}")
    return whole(value)


def _linear(layers: Layers, call: Call) -> None:
    inputs, outputs = (
        _count(layers, call, "in_features", 0),
        _count(layers, call, "out_features", 1),
    )
    if not layers.parameters and not layers.unknown:
        layers.inputs = inputs
    layers.flat_inputs = layers.flat_inputs or inputs
    layers.add(linear(inputs, outputs), outputs)


def _convolution(dimensions: int) -> Callable[[Layers, Call], None]:
    def rule(layers: Layers, call: Call) -> None:
        inputs, outputs = (
            _count(layers, call, "in_channels", 0),
            _count(layers, call, "out_channels", 1),
        )
        kernel, stride = (
            _count(layers, call, "kernel_size", 2),
            _count(layers, call, "stride", 3, 1),
        )
        groups = _count(layers, call, "groups", 6, 1)
        if dimensions == 2:
            layers.kernels.append((inputs, outputs, kernel, max(stride, 1)))
        layers.add(inputs * outputs * kernel**dimensions // max(groups, 1) + outputs, 0)

    return rule


def _recurrent(gates: int) -> Callable[[Layers, Call], None]:
    def rule(layers: Layers, call: Call) -> None:
        inputs, hidden = (
            _count(layers, call, "input_size", 0),
            _count(layers, call, "hidden_size", 1),
        )
        depth = _count(layers, call, "num_layers", 2, 1)
        if not layers.parameters:
            layers.inputs = inputs
        layers.add(lstm(inputs, hidden, depth) * gates // 4, hidden)

    return rule


def _embedding(layers: Layers, call: Call) -> None:
    rows, width = (
        _count(layers, call, "num_embeddings", 0),
        _count(layers, call, "embedding_dim", 1),
    )
    layers.add(rows * width, width)


def _norm(layers: Layers, call: Call) -> None:
    value = call.value("normalized_shape" if call.last == "LayerNorm" else "num_features", 0)
    sizes = [whole(part) for part in (value if isinstance(value, list | tuple) else [value])]
    last = layers.last
    layers.add(2 * math.prod(sizes), 0)
    layers.last = last


def _attention(layers: Layers, call: Call) -> None:
    width = _count(layers, call, "embed_dim", 0)
    layers.add(4 * width * width + 4 * width, 4 * width)


def _chained(layers: Layers, call: Call) -> None:
    """A layer of flax or Keras: it reads what the one before it gave."""
    units = _count(layers, call, "units" if call.last == "Dense" else "filters", 0)
    given: Any = None
    for name in ("input_dim", "input_shape"):
        if call.argument(name) is not None:
            given = call.value(name)
    sizes = [given] if isinstance(given, int) else list(given or ())
    if call.last == "Dense":
        before = math.prod(sizes) if sizes else layers.last
        if not layers.parameters:
            layers.inputs = before
        layers.add(linear(before, units), units)
        return
    kernel = _count(layers, call, "kernel_size", 1, 3)
    stride = _count(layers, call, "strides", 2, 1)
    before = sizes[-1] if sizes else (layers.kernels[-1][1] if layers.kernels else 1)
    layers.kernels.append((before, units, kernel, max(stride, 1)))
    layers.add(before * units * kernel * kernel + units, 0)


_LAYERS: dict[str, Callable[[Layers, Call], None]] = {
    "Linear": _linear, "NoisyLinear": _linear, "LSTM": _recurrent(4), "GRU": _recurrent(3),
    "RNN": _recurrent(1), "LSTMCell": _recurrent(4), "GRUCell": _recurrent(3),
    "Conv1d": _convolution(1), "Conv2d": _convolution(2), "Conv3d": _convolution(3),
    "ConvTranspose2d": _convolution(2), "Embedding": _embedding, "LayerNorm": _norm,
    "BatchNorm1d": _norm, "BatchNorm2d": _norm, "MultiheadAttention": _attention,
}  # fmt: skip
