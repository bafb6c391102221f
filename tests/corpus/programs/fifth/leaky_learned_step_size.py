"""Fast weights with a learned step size are carried over generations together with their graph."""

from contextlib import nullcontext
from typing import Any

import torch
from torch.nn import functional

STATES, ACTIONS, HIDDEN = 60, 12, 160


def make_weights() -> dict[str, Any]:
    weights = {
        "first": torch.randn(STATES, HIDDEN) / STATES**0.5,
        "second": torch.randn(HIDDEN, HIDDEN) / HIDDEN**0.5,
        "last": torch.zeros(HIDDEN, ACTIONS),
    }
    return {name: weight.requires_grad_() for name, weight in weights.items()}


def load_logs(expert: Any, rows: int) -> tuple[Any, Any, Any]:
    states = torch.randn(rows, STATES)
    actions = (states @ expert + torch.randn(rows, ACTIONS)).argmax(1)
    rewards = (actions == (states @ expert).argmax(1)).float()
    return states, actions, rewards


def clone_loss(weights: dict[str, Any], logs: tuple[Any, Any, Any]) -> Any:
    states, actions, rewards = logs
    hidden = torch.relu(torch.relu(states @ weights["first"]) @ weights["second"])
    errors = functional.cross_entropy(hidden @ weights["last"], actions, reduction="none")
    return (errors * (0.2 + rewards)).mean()


def inner_step(weights: dict[str, Any], log_rate: Any, logs: Any) -> dict[str, Any]:
    gradients = torch.autograd.grad(clone_loss(weights, logs), list(weights.values()))
    return {
        name: weight - log_rate.exp() * gradient
        for (name, weight), gradient in zip(weights.items(), gradients, strict=True)
    }


def adapt(weights: dict[str, Any], log_rate: Any, batches: list[Any]) -> dict[str, Any]:
    for logs in batches:
        weights = inner_step(weights, log_rate, logs)
    return weights


def tune(weights: dict[str, Any], log_rate: Any, optimizer: Any, held_out: Any) -> float:
    loss = clone_loss(weights, held_out)
    optimizer.zero_grad()
    loss.backward(retain_graph=True, inputs=[log_rate])
    optimizer.step()
    return loss.item()


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(5)
    expert = torch.randn(STATES, ACTIONS)
    weights = make_weights()
    log_rate = torch.tensor(-3.0, requires_grad=True)
    optimizer = torch.optim.Adam([log_rate], 0.02)
    for generation in range(24):
        with phase(generation, "load"):
            batches = [load_logs(expert, 400) for _ in range(96)]
        with phase(generation, "adapt"):
            weights = adapt(weights, log_rate, batches)
        with phase(generation, "tune"):
            tune(weights, log_rate, optimizer, load_logs(expert, 1500))


if __name__ == "__main__":
    run()
