"""Episodes of all agents side by side, and the noise that makes them explore."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ramledger.replay import ReplayBuffer
from ramledger.train.config import Exploration
from ramledger.train.population import Draw, Population, forward
from ramledger.train.tasks import Environment, Task

Array = np.ndarray[Any, np.dtype[Any]]
Act = Callable[[Array], Array]  # features [episodes, …] of all agents to actions

OU_THETA = 0.15
MAX_STEPS = 100_000  # an environment without a time limit would not end a generation


@dataclass(slots=True)
class Episodes:
    """What happened, episode by episode; steps are kept if they are to be stored."""

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
        _acting_part(population, begin, end, noise, draw(begin) if draw is not None else None)
        for begin, end in population.ranges
    ]

    def act(features: Array) -> Array:
        states = torch.from_numpy(features).clone().view(population.agents, episodes, -1)
        found = [
            part(states[begin:end])
            for part, (begin, end) in zip(parts, population.ranges, strict=True)
        ]
        action = found[0] if len(found) == 1 else np.concatenate(found)
        return action.reshape(population.agents * episodes, task.actions)

    return act


def _acting_part(
    population: Population, begin: int, end: int, noise: Exploration,
    rng: np.random.Generator | None,
) -> Callable[[torch.Tensor], Array]:  # fmt: skip
    actors = population.rows("actor", begin, end)
    if noise.noise == "parameter" and rng is not None:
        actors = population.perturbed(noise.sigma, rng, begin, end)
    drift: Array | None = None

    def act(states: torch.Tensor) -> Array:
        nonlocal drift
        with torch.no_grad():
            action: Array = forward(actors, states).tanh_().numpy()
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


def _column(observations: list[Any], at: int, count: int) -> Any:
    if isinstance(observations[0], dict):
        names = observations[0]
        return {name: np.stack([o[name][at] for o in observations[:count]]) for name in names}
    return np.stack([observation[at] for observation in observations[:count]])


def _part(observation: Any, rows: slice) -> Any:
    if isinstance(observation, dict):
        return {name: value[rows] for name, value in observation.items()}
    return observation[rows]
