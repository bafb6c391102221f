"""Sixteen DDPG agents in plain torch: actor, critic, their targets, Adam, one update each."""

from holding import hold, open_ledger

ledger = open_ledger()

import copy  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

AGENTS, OBSERVATION, ACTION, WIDTH, BATCH = 16, 71, 7, 256, 256


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
        nn.Linear(WIDTH, outputs),
    )  # fmt: skip


class Agent:
    """One DDPG agent."""

    def __init__(self) -> None:
        self.actor = network(OBSERVATION, ACTION)
        self.critic = network(OBSERVATION + ACTION, 1)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters())
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters())

    def update(self, batch: torch.Tensor) -> None:
        loss = -self.critic(torch.cat([batch, self.actor(batch)], 1)).mean()
        self.actor_optimizer.zero_grad()
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.actor_optimizer.step()
        self.critic_optimizer.step()


def parameter_bytes(inputs: int, outputs: int) -> int:
    layers = [(inputs, WIDTH), (WIDTH, WIDTH), (WIDTH, outputs)]
    return 4 * sum(i * o + o for i, o in layers)


def main() -> None:
    torch.set_num_threads(1)
    agents = [Agent() for _ in range(AGENTS)]
    batch = torch.randn(BATCH, OBSERVATION)
    for agent in agents:
        agent.update(batch)
    if ledger is not None:
        ledger.claim("agents", *agents)
    one = parameter_bytes(OBSERVATION, ACTION) + parameter_bytes(OBSERVATION + ACTION, 1)
    truth = {
        "networks_bytes": AGENTS * 2 * one,
        "gradients_bytes": AGENTS * one,
        "optimizer_bytes": AGENTS * 2 * one,
        "modules": AGENTS * 4 * 6,
        "parameters": AGENTS * 2 * 6,
    }
    hold(truth, ledger)


main()
