"""Episodes of all agents side by side, and the noise that makes them explore."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ramledger.replay import ReplayBuffer
from ramledger.train.population import Draw, Population, forward
from ramledger.train.tasks import Environment, Task
from ramledger.trainer_config import Exploration

Array = np.ndarray[Any, np.dtype[Any]]
Act = Callable[[Array], Array]  # features [episodes, …] of all agents to actions

OU_THETA = 0.15
MAX_STEPS = 100_000  # an environment without a time limit would not end a generation
FEW_STATES = 4  # of an agent: beyond, one product of matrices is faster than one a state
LARGEST_VECTOR_PRODUCT = 1 << 18  # beyond, OpenBLAS takes several threads, and sums in their order


@dataclass(slots=True)
class Episodes:
    """What happened, episode by episode; steps are kept if they will be stored."""

    returns: Array
    lengths: Array
    observations: list[Any] = field(default_factory=list)
    steps: list[tuple[Array, Array, Array, Array]] = field(default_factory=list)

    def store(self, buffer: ReplayBuffer, first: int = 0) -> None:
        """Add every episode to the stream of its place, `first` and on."""
        actions, rewards, terminated, truncated = (
            np.stack(column) for column in zip(*self.steps, strict=True)
        )
        for at, length in enumerate(self.lengths.tolist()):
            seen = _column(self.observations, at, length + 1)
            cut = truncated[:length, at].copy()
            # the next episode of this place does not continue this one
            cut[-1] |= not terminated[length - 1, at]
            buffer.extend(
                _part(seen, slice(0, length)), actions[:length, at], rewards[:length, at],
                _part(seen, slice(1, length + 1)), terminated[:length, at], cut, env=first + at,
            )  # fmt: skip


def run_episodes(
    env: Environment, first: Any, encode: Callable[[Any], Array], act: Act, *, keep: bool
) -> Episodes:
    """Step until every episode is over."""
    done = Episodes(np.zeros(env.count), np.zeros(env.count, np.int64))
    alive = np.ones(env.count, bool)
    observation = first
    if keep:
        done.observations.append(observation)
    for _ in range(MAX_STEPS):
        action = act(encode(observation))
        observation, reward, terminated, truncated = env.step(action)
        done.returns += np.where(alive, reward, 0)
        done.lengths += alive
        if keep:
            done.observations.append(observation)
            done.steps.append((action, reward, terminated, truncated))
        alive &= ~(terminated | truncated)
        if not alive.any():
            break
    return done


def acting(
    population: Population,
    task: Task,
    episodes: int,
    noise: Exploration | None = None,
    draw: Draw | None = None,
) -> Act:
    """How the agents act in `episodes` episodes each, with noise or without, range by range."""
    if noise is None or draw is None:
        noise = Exploration(noise="none")
    parts = [
        _acting_part(
            population, begin, end, episodes, noise, draw(begin) if draw is not None else None
        )
        for begin, end in population.ranges
    ]

    def act(features: Array) -> Array:
        states = features.reshape(population.agents, episodes, -1)
        found = [
            part(states[begin:end])
            for part, (begin, end) in zip(parts, population.ranges, strict=True)
        ]
        action = found[0] if len(found) == 1 else np.concatenate(found)
        return action.reshape(population.agents * episodes, task.actions)

    return act


def _acting_part(
    population: Population, begin: int, end: int, episodes: int, noise: Exploration,
    rng: np.random.Generator | None,
) -> Act:  # fmt: skip
    actors = population.rows("actor", begin, end)
    if noise.noise == "parameter" and rng is not None:
        actors = population.perturbed(noise.sigma, rng, begin, end)
    policy = _policy(actors, episodes)
    drift: Array | None = None

    def act(states: Array) -> Array:
        nonlocal drift
        action = policy(states)
        if noise.noise in ("gaussian", "ou") and rng is not None:
            fresh: Array = np.asarray(rng.standard_normal(action.shape, np.float32))
            fresh *= np.float32(noise.sigma)
            if noise.noise == "ou" and drift is not None:
                fresh += (1 - OU_THETA) * drift
            drift = fresh
            action += drift
            np.maximum(np.minimum(action, 1, out=action), -1, out=action)
        return action

    return act


def _policy(actors: Sequence[torch.Tensor], episodes: int) -> Act:
    """States `[agents, episodes, features]` to actions. A vector times a matrix takes half as long
    in numpy's OpenBLAS as in torch's MKL."""
    if episodes > FEW_STATES or any(
        tensor[0].numel() > LARGEST_VECTOR_PRODUCT for tensor in actors
    ):

        def batched(states: Array) -> Array:
            with torch.no_grad():
                # torch's own memory is aligned: the same sums in the same order in every process
                found: Array = forward(actors, torch.from_numpy(states).clone()).tanh_().numpy()
            return found

        return batched
    views = [tensor.numpy()[:, None] for tensor in actors]
    layers = list(zip(views[::2], views[1::2], strict=True))

    def each(states: Array) -> Array:
        value = states[:, :, None]
        for weight, bias in layers[:-1]:
            value = np.matmul(value, weight)
            value += bias
            np.maximum(value, 0, out=value)
        weight, bias = layers[-1]
        found: Array = np.tanh(np.matmul(value, weight) + bias)
        return found[:, :, 0]

    return each


def _column(observations: list[Any], at: int, count: int) -> Any:
    if isinstance(observations[0], dict):
        names = observations[0]
        return {name: np.stack([o[name][at] for o in observations[:count]]) for name in names}
    return np.stack([observation[at] for observation in observations[:count]])


def _part(observation: Any, rows: slice) -> Any:
    if isinstance(observation, dict):
        return {name: value[rows] for name, value in observation.items()}
    return observation[rows]
