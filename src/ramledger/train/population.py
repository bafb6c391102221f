"""The algorithm, to be read from top to bottom: a population of DDPG or TD3 agents that evolves.

Every parameter of all agents is one tensor `[agents + 1, …]`, the last row being the best agent so
far. Acting and learning are batched over agents; cloning, crossover and mutation are row copies.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ramledger.trainer_config import Evolution, Learning

Array = np.ndarray[Any, np.dtype[Any]]

Draw = Callable[[int], np.random.Generator]  # of the agents from this row on

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # Adam's
FLOAT_BYTES = 4
NARROW = 16  # columns
LARGEST_KEPT_BYTES = (32 << 20) - (1 << 16)  # below mallopt(3)'s DEFAULT_MMAP_THRESHOLD_MAX


@dataclass(frozen=True, slots=True)
class Minibatch:
    """Transitions to learn from: `[1, batch, …]` for all agents, or `[agents, batch, …]`."""

    features: Tensor
    action: Tensor
    reward: Tensor
    next_features: Tensor
    discount: Tensor  # gamma to the number of steps, 0 where the episode ended by itself

    def rows(self, begin: int, end: int) -> "Minibatch":
        if len(self.reward) == 1:
            return self
        parts = (self.features, self.action, self.reward, self.next_features, self.discount)
        return Minibatch(*(part[begin:end] for part in parts))


# ---- networks: tensors in turn, weight [agents, in, out] and bias [agents, 1, out] --------------


def layer_sizes(inputs: int, hidden: Sequence[int], outputs: int) -> list[tuple[int, int]]:
    sizes = [inputs, *hidden, outputs]
    return list(pairwise(sizes))


def new_network(
    rng: np.random.Generator, rows: int, inputs: int, hidden: Sequence[int], outputs: int
) -> list[Tensor]:
    """Uniform in ±1/√inputs, as torch's Linear; the last layer small, as in the DDPG paper."""
    tensors: list[Tensor] = []
    sizes = layer_sizes(inputs, hidden, outputs)
    for number, (fan_in, fan_out) in enumerate(sizes):
        bound = 3e-3 if number == len(sizes) - 1 else 1 / math.sqrt(fan_in)
        for shape in ((rows, fan_in, fan_out), (rows, 1, fan_out)):
            drawn = rng.random(shape, np.float32)
            drawn -= 0.5
            drawn *= 2 * bound
            # torch's own memory is aligned: the same sums in the same order in every process
            tensors.append(torch.from_numpy(drawn).clone())
    return tensors


def product(left: Tensor, right: Tensor, added: Tensor | None = None) -> Tensor:
    """`left @ right + added`, agent by agent. Inner sizes of one and narrow results are slow in
    MKL: the first are left to broadcasting, the second computed as rows (up to ten times faster).
    """
    if added is None and left.shape[2] == 1:
        return left * right
    if right.shape[2] < min(NARROW, left.shape[1]):
        left, right = right.mT, left.mT
        turned = torch.bmm(left, right) if added is None else (
            torch.baddbmm(added.mT, left, right))  # fmt: skip
        return turned.mT.contiguous()
    return torch.bmm(left, right) if added is None else torch.baddbmm(added, left, right)


def layer(tensors: Sequence[Tensor], at: int, inputs: Tensor) -> Tensor:
    """One layer's output; ReLU between the layers, nothing after the last."""
    sums = product(inputs, tensors[at], tensors[at + 1])
    return sums.relu_() if at < len(tensors) - 2 else sums


def forward(tensors: Sequence[Tensor], inputs: Tensor) -> Tensor:
    """`[agents or 1, batch, in]` to `[agents, batch, out]`."""
    value = inputs.expand(len(tensors[0]), -1, -1)
    for at in range(0, len(tensors), 2):
        value = layer(tensors, at, value)
    return value


def values(tensors: Sequence[Tensor], inputs: Tensor) -> list[Tensor]:
    """The same forward pass: the input of each layer, and the output."""
    found = [inputs.expand(len(tensors[0]), -1, -1)]
    for at in range(0, len(tensors), 2):
        found.append(layer(tensors, at, found[-1]))
    return found


def slopes(
    tensors: Sequence[Tensor], found: Sequence[Tensor], slope: Tensor
) -> Iterator[tuple[int, Tensor]]:
    """The loss's slope by each layer's sums, from the last layer, where it is given, to the first.

    A slope that was yielded is not read again, so it may be overwritten.
    """
    for at in range(len(tensors) - 2, -1, -2):
        before = product(slope, tensors[at].mT) if at else slope
        if at:  # the slope of ReLU is 0 where its output is 0
            torch.ops.aten.threshold_backward.grad_input(
                before, found[at // 2], 0, grad_input=before
            )
        yield at, slope
        slope = before


def joined(features: Tensor, action: Tensor) -> Tensor:
    """What a critic sees: features first, then actions."""
    agents = max(len(features), len(action))
    return torch.cat((features.expand(agents, -1, -1), action.expand(agents, -1, -1)), dim=2)


def adam(
    weights: list[Tensor], grads: list[Tensor], means: list[Tensor], squares: list[Tensor],
    step: Tensor, lr: float,
) -> None:  # fmt: skip
    """One fused step in place. `torch.optim` would do the same and import 76 MB more."""
    torch._fused_adam_(
        weights, grads, means, squares, [], [step] * len(weights), lr=lr, beta1=BETA_1,
        beta2=BETA_2, weight_decay=0.0, eps=EPSILON, amsgrad=False, maximize=False,
    )  # fmt: skip


class Population:
    """Agents as rows of stacked tensors. Rows `0 … learners - 1` learn, all rows may evolve."""

    def __init__(
        self,
        features: int,
        actions: int,
        *,
        agents: int,
        learners: int,
        learning: Learning,
        agents_per_chunk: int,
        seed: int,
        ranges: Sequence[tuple[int, int]] = (),
    ) -> None:
        # glibc keeps as much freed memory as the largest block it ever got back, times two; this
        # one is never touched. Otherwise every update returns its pages and faults them in again.
        torch.empty(LARGEST_KEPT_BYTES, dtype=torch.uint8)
        self.agents, self.learners, self.learning = agents, learners, learning
        self.features, self.actions = features, actions
        self.agents_per_chunk = max(1, min(agents_per_chunk, learners))
        # computed apart: sums are taken in another order where more agents are batched together
        self.ranges = list(ranges) or [(0, agents)]
        self.chunks = [
            (at, min(at + self.agents_per_chunk, end, learners))
            for begin, end in self.ranges
            for at in range(begin, min(end, learners), self.agents_per_chunk)
        ]
        self.best = agents  # the row of the best agent
        self.updates = self.actor_updates = 0
        self._views: dict[tuple[str, int, int], list[Tensor]] = {}
        rng = np.random.default_rng((seed, 0xA6E17))
        rows = agents + 1
        self.groups: dict[str, list[Tensor]] = {
            "actor": new_network(rng, rows, features, learning.hidden, actions)
        }
        for name in self.critics:
            self.groups[name] = new_network(rng, rows, features + actions, learning.hidden, 1)
        spread = learning.lr_spread ** rng.uniform(-1, 1, rows)
        self.actor_lr, self.critic_lr = learning.actor_lr * spread, learning.critic_lr * spread
        for name in ("actor", *self.critics):
            self.groups[f"{name}_target"] = [tensor.clone() for tensor in self.groups[name]]
            for moment in ("mean", "square"):
                zeros = [torch.zeros_like(tensor) for tensor in self.groups[name]]
                self.groups[f"{name}_{moment}"] = zeros

    @property
    def critics(self) -> tuple[str, ...]:
        return ("critic", "second_critic") if self.learning.twin else ("critic",)

    def rows(self, group: str, begin: int, end: int) -> list[Tensor]:
        """Views of some agents' tensors; they stay valid, as tensors are only changed in place."""
        views = self._views.get((group, begin, end))
        if views is None:
            views = [tensor[begin:end] for tensor in self.groups[group]]
            self._views[group, begin, end] = views
        return views

    # ---- act -------------------------------------------------------------------------------

    @torch.no_grad()
    def act(self, features: Tensor, begin: int = 0, end: int | None = None) -> Tensor:
        """`[agents, states, features]` to actions in -1 … 1."""
        return forward(self.rows("actor", begin, end or self.agents), features).tanh_()

    @torch.no_grad()
    def perturbed(
        self, sigma: float, rng: np.random.Generator, begin: int = 0, end: int | None = None
    ) -> list[Tensor]:
        """Actors with noise on their parameters, in units of each layer's root mean square."""
        actors = [tensor.clone() for tensor in self.rows("actor", begin, end or self.agents)]
        for tensor in actors:
            noise = torch.from_numpy(rng.standard_normal(tensor.shape, np.float32))
            scale = tensor.square().mean(dim=(1, 2), keepdim=True).sqrt()
            tensor += noise * scale * sigma
        return actors

    # ---- learn -----------------------------------------------------------------------------

    def update(self, batch: Minibatch, rng: np.random.Generator) -> float:
        """One update of every learner; the mean critic loss."""
        return sum(self.update_chunks(batch, lambda _: rng)) / self.learners

    @torch.no_grad()
    def update_chunks(self, batch: Minibatch, draw: Draw) -> list[float]:
        """The same; the summed critic loss of every chunk. `draw` gives a range its randomness."""
        self.updates += 1
        is_actors_turn = self.updates % self.learning.policy_delay == 0
        self.actor_updates += is_actors_turn
        rngs = {begin: draw(begin) for begin, _ in self.ranges}
        losses: list[float] = []
        for begin, end in self.chunks:
            rng = rngs[max(first for first in rngs if first <= begin)]
            part = batch.rows(begin, end)
            seen = joined(part.features, part.action)
            losses.append(self._update_critics(part, seen, begin, end, rng))
            if is_actors_turn:
                self._update_actor(part, seen, begin, end)
                self._follow(begin, end)
        return losses

    def _update_critics(
        self, batch: Minibatch, seen: Tensor, begin: int, end: int, rng: np.random.Generator
    ) -> float:
        goal = batch.reward + batch.discount * self._target_value(batch, begin, end, rng)
        total = 0.0
        for name in self.critics:
            weights = self.rows(name, begin, end)
            found = values(weights, seen)
            error = found[-1] - goal.unsqueeze(2)
            count = error.shape[1]
            # the mean over the batch, summed over agents: each one's gradient is its own
            total += error.square().sum().item() / count / len(self.critics)
            slope = error.mul_(2 / count)
            self._descend(name, found, slope, begin, end, self.updates, self.critic_lr)
        return total

    def _target_value(
        self, batch: Minibatch, begin: int, end: int, rng: np.random.Generator
    ) -> Tensor:
        action = forward(self.rows("actor_target", begin, end), batch.next_features).tanh_()
        if self.learning.target_noise:
            noise = torch.from_numpy(rng.standard_normal(action.shape, np.float32))
            action += (noise * self.learning.target_noise).clamp_(-0.5, 0.5)
            action.clamp_(-1, 1)
        seen = joined(batch.next_features, action)
        found = [
            forward(self.rows(f"{name}_target", begin, end), seen).squeeze(2)
            for name in self.critics
        ]
        return found[0] if len(found) == 1 else torch.minimum(*found)

    def _update_actor(self, batch: Minibatch, seen: Tensor, begin: int, end: int) -> None:
        """Climb the value of the critic, which is fixed: only its slope by actions is needed."""
        weights, critic = self.rows("actor", begin, end), self.rows("critic", begin, end)
        found = values(weights, batch.features)
        action = found[-1].tanh()
        if len(seen) < len(action):
            seen = joined(batch.features, action)
        else:
            seen[:, :, self.features :] = action  # the critics no longer need what was there
        judged = values(critic, seen)
        by_value = torch.full_like(judged[-1], -1 / judged[-1].shape[1])
        by_sums = deque(slopes(critic, judged, by_value), maxlen=1)[0][1]
        slope = product(by_sums, critic[0][:, self.features :].mT)
        slope *= 1 - action * action
        if self.learning.action_penalty:
            slope += found[-1] * (2 * self.learning.action_penalty / action[0].numel())
        self._descend("actor", found, slope, begin, end, self.actor_updates, self.actor_lr)

    def _descend(
        self, name: str, found: list[Tensor], slope: Tensor, begin: int, end: int, step: int,
        rates: Array,
    ) -> None:  # fmt: skip
        """Descend along the slope: every layer takes its step as soon as its gradient is known."""
        if (rates[begin:end] == rates[begin]).all():
            parts = [(begin, end)]
        else:  # a call an agent
            parts = [(row, row + 1) for row in range(begin, end)]
        number = torch.tensor(float(step))
        for at, by_sums in slopes(self.rows(name, begin, end), found, slope):
            grads = [product(found[at // 2].mT, by_sums), by_sums.sum(1, keepdim=True)]
            for first, last in parts:
                weights, means, squares = (
                    self.rows(group, first, last)[at : at + 2]
                    for group in (name, f"{name}_mean", f"{name}_square")
                )
                some = [grad[first - begin : last - begin] for grad in grads]
                adam(weights, some, means, squares, number, float(rates[first]))

    @torch.no_grad()
    def _follow(self, begin: int, end: int) -> None:
        names = ("actor", *self.critics)
        targets = [view for name in names for view in self.rows(f"{name}_target", begin, end)]
        sources = [view for name in names for view in self.rows(name, begin, end)]
        torch._foreach_lerp_(targets, sources, self.learning.tau)

    # ---- evolve ----------------------------------------------------------------------------

    def evolve(
        self, fitness: Array, rng: np.random.Generator, how: Evolution, states: Tensor
    ) -> dict[str, int]:
        """The next generation, in place: tournament selection, elitism, crossover, mutation.

        As in ERL (Khadka and Tumer, 2018). Where only some agents learn, those are left to their
        gradients, the others evolve, and the best learner's actor replaces the worst of them.
        """
        first = 0 if self.learners == self.agents else self.learners
        order = [int(row) + first for row in np.argsort(-fitness[first:], kind="stable")]
        elites = order[: min(how.elites, len(order))]
        winners = {
            min(rng.choice(order, how.tournament).tolist(), key=order.index)
            for _ in range(len(order) - len(elites))
        }
        # children replace rows that nobody descends from, so that copies in place are safe
        losers = [row for row in order if row not in winners and row not in elites]
        parents = sorted({*elites, *winners})
        for child in losers:
            one, other = rng.choice(parents, 2).tolist()
            self.copy_row(one, child)
            if rng.random() < how.crossover:
                self._cross(other, child, rng)
        mutated = [row for row in order if row not in elites and rng.random() < how.mutation]
        if mutated:
            self._mutate(mutated, rng, how, states)
        injected = 0
        if first and len(order) > len(elites):
            self._inject(int(np.argmax(fitness[:first])), order[-1])
            injected = 1
        return {"elites": len(elites), "children": len(losers), "mutated": len(mutated),
                "injected": injected}  # fmt: skip

    @torch.no_grad()
    def copy_row(self, source: int, target: int) -> None:
        """An agent with everything it has: networks, targets, moments, learning rates."""
        for tensors in self.groups.values():
            for tensor in tensors:
                tensor[target] = tensor[source]
        for rates in (self.actor_lr, self.critic_lr):
            rates[target] = rates[source]

    @torch.no_grad()
    def _inject(self, learner: int, target: int) -> None:
        for group in ("actor", "actor_target"):
            for tensor in self.groups[group]:
                tensor[target] = tensor[learner]

    @torch.no_grad()
    def _cross(self, other: int, child: int, rng: np.random.Generator) -> None:
        """Half of the child's neurons, drawn anew in each layer, are those of the other parent."""
        for group in ("actor", "actor_target"):
            tensors = self.groups[group]
            for weight, bias in zip(tensors[::2], tensors[1::2], strict=True):
                taken = torch.from_numpy(rng.random(weight.shape[2]) < 0.5)
                weight[child][:, taken] = weight[other][:, taken]
                bias[child][:, taken] = bias[other][:, taken]

    def _mutate(
        self, rows: list[int], rng: np.random.Generator, how: Evolution, states: Tensor
    ) -> None:
        for row in rows:
            weights = self.rows("actor", row, row + 1)
            changes = _proximal(weights, rng, how, states) if how.method == "proximal" else (
                _scaled(weights, rng, how))  # fmt: skip
            with torch.no_grad():
                for weight, change, target in zip(
                    weights, changes, self.rows("actor_target", row, row + 1), strict=True
                ):
                    weight += change
                    target.copy_(weight)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Everything that makes up the population, by name, in a fixed order."""
        for group, tensors in self.groups.items():
            for number, tensor in enumerate(tensors):
                yield f"{group}.{number}", tensor

    @staticmethod
    def size_bytes(features: int, actions: int, agents: int, learning: Learning) -> int:
        """What a population holds, known before it is made: weights, targets and two moments."""
        actor = layer_sizes(features, learning.hidden, actions)
        critic = layer_sizes(features + actions, learning.hidden, 1) * (2 if learning.twin else 1)
        weights = sum(fan_in * fan_out + fan_out for fan_in, fan_out in actor + critic)
        return weights * (agents + 1) * 4 * FLOAT_BYTES


def _leaves(views: list[Tensor]) -> list[Tensor]:
    """The same memory as leaves of a new graph."""
    return [view.detach().requires_grad_() for view in views]


def _scaled(weights: list[Tensor], rng: np.random.Generator, how: Evolution) -> list[Tensor]:
    """Noise on a fraction of the weights, as large as the layer's weights are."""
    changes: list[Tensor] = []
    for weight in weights:
        noise = rng.standard_normal(weight.shape, np.float32)
        noise *= rng.random(weight.shape, np.float32) < how.fraction
        change = torch.from_numpy(noise)
        changes.append(change * (weight.square().mean().sqrt() * how.strength))
    return changes


def _proximal(
    weights: list[Tensor], rng: np.random.Generator, how: Evolution, states: Tensor
) -> list[Tensor]:
    """Noise divided by how much the actions depend on each weight (Bodnar et al., 2020)."""
    leaves = _leaves(weights)
    outputs = forward(leaves, states[:1]).tanh()
    sensitivity = [torch.zeros_like(weight) for weight in weights]
    for number in range(outputs.shape[2]):
        last = number == outputs.shape[2] - 1
        grads = torch.autograd.grad(outputs[..., number].sum(), leaves, retain_graph=not last)
        for total, grad in zip(sensitivity, grads, strict=True):
            total += grad.square()
    changes: list[Tensor] = []
    for total in sensitivity:
        # the paper divides by 0.01 at least; ours never makes a change larger than its strength
        scale = total.sqrt_().clamp_(min=1.0)
        noise = torch.from_numpy(rng.standard_normal(scale.shape, np.float32))
        changes.append(noise * how.strength / scale)
    return changes
