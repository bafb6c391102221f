"""The oracle: DDPG the plain way, agent by agent, with torch's own modules and optimizer."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ramledger.train.population import Learning, Minibatch, Population


def network(tensors: Sequence[Tensor], row: int) -> nn.Sequential:
    """One agent's network, as a module of its own."""
    layers: list[nn.Module] = []
    for at in range(0, len(tensors), 2):
        layer = nn.Linear(tensors[at].shape[1], tensors[at].shape[2])
        with torch.no_grad():
            layer.weight.copy_(tensors[at][row].T)
            layer.bias.copy_(tensors[at + 1][row, 0])
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class PlainAgent:
    """Networks, targets and optimizers of a single agent."""

    def __init__(self, population: Population, row: int) -> None:
        self.learning: Learning = population.learning
        self.actor = network(population.groups["actor"], row)
        self.critic = network(population.groups["critic"], row)
        self.actor_target, self.critic_target = map(copy.deepcopy, (self.actor, self.critic))
        self.actor_adam = torch.optim.Adam(
            self.actor.parameters(), lr=float(population.actor_lr[row])
        )
        self.critic_adam = torch.optim.Adam(
            self.critic.parameters(), lr=float(population.critic_lr[row])
        )

    def update(self, batch: Minibatch, row: int) -> None:
        at = row if len(batch.reward) > 1 else 0
        state, following = batch.features[at], batch.next_features[at]
        with torch.no_grad():
            action = torch.tanh(self.actor_target(following))
            value = self.critic_target(torch.cat((following, action), 1)).squeeze(1)
            goal = batch.reward[at] + batch.discount[at] * value
        value = self.critic(torch.cat((state, batch.action[at]), 1)).squeeze(1)
        loss = nn.functional.mse_loss(value, goal)
        self.critic_adam.zero_grad()
        torch.autograd.backward(loss)
        self.critic_adam.step()
        loss = -self.critic(torch.cat((state, torch.tanh(self.actor(state))), 1)).mean()
        self.actor_adam.zero_grad()
        torch.autograd.backward(loss)
        self.actor_adam.step()
        self._follow()

    def _follow(self) -> None:
        tau = self.learning.tau
        pairs = [(self.actor, self.actor_target), (self.critic, self.critic_target)]
        with torch.no_grad():
            for source, target in pairs:
                for new, old in zip(source.parameters(), target.parameters(), strict=True):
                    old.mul_(1 - tau).add_(new, alpha=tau)
