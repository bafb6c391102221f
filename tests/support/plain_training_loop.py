"""The oracle: DDPG the plain way, agent by agent, with torch's own modules and optimizer."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ramledger.train.population import Minibatch, Population
from ramledger.trainer_config import Learning


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
        self.critics = [self.critic]
        if self.learning.twin:
            self.second_critic = network(population.groups["second_critic"], row)
            self.critics.append(self.second_critic)
        self.actor_target = copy.deepcopy(self.actor)
        self.critic_targets = [copy.deepcopy(critic) for critic in self.critics]
        self.critic_target = self.critic_targets[0]
        self.actor_adam = torch.optim.Adam(
            self.actor.parameters(), lr=float(population.actor_lr[row])
        )
        self.critic_adam = torch.optim.Adam(
            [parameter for critic in self.critics for parameter in critic.parameters()],
            lr=float(population.critic_lr[row]),
        )

    def update(self, batch: Minibatch, row: int) -> None:
        at = row if len(batch.reward) > 1 else 0
        state, following = batch.features[at], batch.next_features[at]
        with torch.no_grad():
            action = torch.tanh(self.actor_target(following))
            seen = torch.cat((following, action), 1)
            value = torch.stack([target(seen) for target in self.critic_targets]).amin(0)
            goal = batch.reward[at] + batch.discount[at] * value.squeeze(1)
        seen = torch.cat((state, batch.action[at]), 1)
        losses = [nn.functional.mse_loss(critic(seen).squeeze(1), goal) for critic in self.critics]
        loss = torch.stack(losses).sum()
        self.critic_adam.zero_grad()
        torch.autograd.backward(loss)
        self.critic_adam.step()
        outputs = self.actor(state)
        loss = -self.critic(torch.cat((state, torch.tanh(outputs)), 1)).mean()
        loss = loss + self.learning.action_penalty * outputs.square().mean()
        self.actor_adam.zero_grad()
        torch.autograd.backward(loss)
        self.actor_adam.step()
        self._follow()

    def _follow(self) -> None:
        tau = self.learning.tau
        pairs = [
            (self.actor, self.actor_target),
            *zip(self.critics, self.critic_targets, strict=True),
        ]
        with torch.no_grad():
            for source, target in pairs:
                for new, old in zip(source.parameters(), target.parameters(), strict=True):
                    old.mul_(1 - tau).add_(new, alpha=tau)
