"""The best agent apart from everything else: a small file that numpy or torch alone can read."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
import torch

from ramledger import CheckpointError, ConfigError
from ramledger.train.population import Population
from ramledger.user_files import open_to_read, write_whole

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Policy:
    """Layers of one actor. Features in, actions in -1 … 1 out."""

    layers: tuple[tuple[Array, Array], ...]

    def act(self, features: Array) -> Array:
        value = np.asarray(features, np.float32)
        for number, (weight, bias) in enumerate(self.layers):
            value = value @ weight + bias
            if number < len(self.layers) - 1:
                value = np.maximum(value, 0)
        return np.tanh(value)


def export_best(population: Population, path: str | Path, *, force: bool = False) -> Path:
    """Write the best agent's actor: an .npz file, or a .pt file with a state dict."""
    target = Path(path)
    if target.suffix not in WRITERS:
        raise ConfigError(
            f"the file must end in .npz or .pt, got {target.name}", hint="export FOLDER best.npz"
        )
    whole = io.BytesIO()  # one small network
    WRITERS[target.suffix](whole, [t[population.best] for t in population.groups["actor"]])
    write_whole(
        str(target),
        whole.getvalue(),
        force=force,
        error=CheckpointError,
        hint="choose another place for it",
    )
    return target


def _write_arrays(file: BinaryIO, tensors: list[torch.Tensor]) -> None:
    names = (f"{'bias' if at % 2 else 'weight'}{at // 2}" for at in range(len(tensors)))
    arrays = {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
    np.savez(file, **arrays)  # type: ignore[arg-type]


def _write_state_dict(file: BinaryIO, tensors: list[torch.Tensor]) -> None:
    """As of `Sequential(Linear, ReLU, Linear, …, Tanh)`; `weights_only` reads it."""
    state: dict[str, torch.Tensor] = {}
    for number, (weight, bias) in enumerate(zip(tensors[::2], tensors[1::2], strict=True)):
        # copies: a view would be written with all agents
        state[f"{2 * number}.weight"] = weight.T.clone(memory_format=torch.contiguous_format)
        state[f"{2 * number}.bias"] = bias[0].clone()
    torch.save(state, file)


WRITERS = {".npz": _write_arrays, ".pt": _write_state_dict}


def load_policy(path: str | Path) -> Policy:
    """Read an .npz file that `export_best` wrote; nothing in it is executed."""
    try:
        with (
            open_to_read(path, CheckpointError, "export it again") as file,
            np.load(file, allow_pickle=False) as found,
        ):
            count = len(found.files) // 2
            layers = [(found[f"weight{at}"], found[f"bias{at}"][0]) for at in range(count)]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise CheckpointError(f"cannot read {path}: {error}", hint="export it again") from None
    return Policy(tuple(layers))
