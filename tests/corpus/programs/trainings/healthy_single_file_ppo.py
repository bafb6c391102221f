"""PPO in one file: several environments, rollouts in fixed tensors, clipped updates."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

ENVS, STEPS, UPDATES, EPOCHS, BATCHES = 4, 128, 60, 4, 4


class Agent(nn.Module):
    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, actions))

    def act(self, observations: Any, actions: Any = None) -> tuple[Any, Any, Any, Any]:
        policy: Any = torch.distributions.Categorical(logits=self.actor(observations))
        if actions is None:
            actions = policy.sample()
        values = self.critic(observations).squeeze(-1)
        return actions, policy.log_prob(actions), policy.entropy(), values


class Rollout:
    """What one update learns from; the next one overwrites it."""

    def __init__(self, inputs: int) -> None:
        self.observations = torch.zeros(STEPS, ENVS, inputs)
        self.actions = torch.zeros(STEPS, ENVS, dtype=torch.long)
        self.log_probs = torch.zeros(STEPS, ENVS)
        self.rewards = torch.zeros(STEPS, ENVS)
        self.values = torch.zeros(STEPS + 1, ENVS)
        self.ended = torch.zeros(STEPS, ENVS)
        self.advantages = torch.zeros(STEPS, ENVS)


@torch.no_grad()
def collect(envs: Any, agent: Agent, rollout: Rollout, observation: Any) -> Any:
    for step in range(STEPS):
        rollout.observations[step] = observation
        actions, log_probs, _, values = agent.act(observation)
        rollout.actions[step], rollout.log_probs[step] = actions, log_probs
        rollout.values[step] = values
        following, rewards, fell, late, _ = envs.step(actions.numpy())
        rollout.rewards[step] = torch.as_tensor(rewards, dtype=torch.float32)
        rollout.ended[step] = torch.as_tensor(np.logical_or(fell, late), dtype=torch.float32)
        observation = torch.as_tensor(following, dtype=torch.float32)
    rollout.values[STEPS] = agent.act(observation)[3]
    return observation


def estimate(rollout: Rollout) -> Any:
    """Generalized advantages, from the last step back; returns what values should be."""
    advantage = torch.zeros(ENVS)
    for step in reversed(range(STEPS)):
        goes_on = 1.0 - rollout.ended[step]
        error = rollout.rewards[step] + 0.99 * rollout.values[step + 1] * goes_on
        advantage = error - rollout.values[step] + 0.99 * 0.95 * goes_on * advantage
        rollout.advantages[step] = advantage
    return rollout.advantages + rollout.values[:STEPS]


def update(agent: Agent, optimizer: Any, rollout: Rollout, targets: Any) -> float:
    observations = rollout.observations.flatten(0, 1)
    actions, log_probs = rollout.actions.flatten(), rollout.log_probs.flatten()
    advantages, targets = rollout.advantages.flatten(), targets.flatten()
    last = 0.0
    for _ in range(EPOCHS):
        for rows in torch.randperm(STEPS * ENVS).chunk(BATCHES):
            _, fresh, entropy, values = agent.act(observations[rows], actions[rows])
            ratio = (fresh - log_probs[rows]).exp()
            gain = advantages[rows]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            clipped = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
            loss = clipped + 0.5 * (values - targets[rows]).pow(2).mean() - 0.01 * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            last = loss.item()
    return last


def main() -> None:
    torch.manual_seed(1)
    envs: Any = gym.make_vec("CartPole-v1", num_envs=ENVS, vectorization_mode="sync")
    inputs = int(envs.single_observation_space.shape[0])
    agent = Agent(inputs, int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4)
    rollout = Rollout(inputs)
    observation = torch.as_tensor(envs.reset(seed=1)[0], dtype=torch.float32)
    for _ in range(UPDATES):
        observation = collect(envs, agent, rollout, observation)
        update(agent, optimizer, rollout, estimate(rollout))
    envs.close()


if __name__ == "__main__":
    main()
