"""The best agent apart from everything else: a small file, and an `act` that needs numpy alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ramledger.errors import CheckpointError
from ramledger.train.population import Population

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
    """Write the best agent's actor as an .npz file."""
    target = Path(path)
    if target.exists() and not force:
        raise CheckpointError(f"{target} exists", hint="choose another name, or pass --force")
    tensors = [tensor[population.best].numpy() for tensor in population.groups["actor"]]
    arrays = {f"{'bias' if at % 2 else 'weight'}{at // 2}": t for at, t in enumerate(tensors)}
    with target.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return target


def load_policy(path: str | Path) -> Policy:
    """Read what `export_best` wrote; nothing in it is executed."""
    try:
        with np.load(path, allow_pickle=False) as found:
            count = len(found.files) // 2
            layers = [(found[f"weight{at}"], found[f"bias{at}"][0]) for at in range(count)]
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"cannot read {path}: {error}", hint="export it again") from None
    return Policy(tuple(layers))
