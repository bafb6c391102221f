"""A hand-written PPO that first parses 27 CSV files in a loop of its own.

Prints its own truth: a JSON line after every file and every update, and one when `main` is over.
"""

import argparse
import csv
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

FILES, UPDATES, COLUMNS, ACTIONS = 27, 14, 32, 5
WINDOW, WIDTH = 64, 256


def memory() -> dict[str, float]:
    """What the kernel says of this process, in bytes, and when."""
    with open("/proc/self/status") as status:
        sizes = dict(line.split(":", 1) for line in status)
    return {
        "at": time.time(),
        "rss_bytes": int(sizes["VmRSS"].split()[0]) * 1024,
        "peak_bytes": int(sizes["VmHWM"].split()[0]) * 1024,
    }


def write_files(folder: Path, files: int, rows: int) -> None:
    generator = np.random.default_rng(0)
    block = "\n".join(
        ",".join(f"{value:.5f}" for value in row) for row in generator.normal(size=(100, COLUMNS))
    )
    for number in range(files):
        with open(folder / f"prices_{number:02}.csv", "w") as file:
            for _ in range(rows // 100):
                file.write(block + "\n")


def parse(path: Path) -> np.ndarray:
    with open(path, newline="") as file:
        rows = [[float(cell) for cell in row] for row in csv.reader(file)]
    return np.array(rows)


class Market:
    """Steps through the parsed tables, one after the other."""

    def __init__(self, tables: list[np.ndarray]) -> None:
        self.tables = tables
        self.table = tables[0]
        self.row = WINDOW

    def reset(self, number: int) -> np.ndarray:
        self.table = self.tables[number % len(self.tables)]
        self.row = WINDOW
        return self.observe()

    def observe(self) -> np.ndarray:
        return self.table[self.row - WINDOW : self.row].astype(np.float32).ravel()

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        self.row += 1
        reward = float(self.table[self.row, action])
        return self.observe(), reward, self.row >= len(self.table) - 1


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WINDOW * COLUMNS, WIDTH), nn.Tanh())
        self.policy = nn.Linear(WIDTH, ACTIONS)
        self.value = nn.Linear(WIDTH, 1)

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(states)
        return self.policy(hidden), self.value(hidden)[..., 0]


def collect(
    market: Market, model: ActorCritic, episode: int, steps: int, seconds: float
) -> dict[str, torch.Tensor]:
    states, actions, log_probs, rewards, values = [], [], [], [], []
    state = market.reset(episode)
    for step in range(steps):
        with torch.no_grad():
            logits, value = model(torch.from_numpy(state))
            choice = torch.distributions.Categorical(logits=logits)
            action = choice.sample()  # type: ignore[no-untyped-call]
        states.append(state)
        actions.append(int(action))
        log_probs.append(float(choice.log_prob(action)))  # type: ignore[no-untyped-call]
        values.append(float(value))
        state, reward, done = market.step(int(action))
        rewards.append(reward)
        if done:
            state = market.reset(episode + step)
        if step % 32 == 0:
            time.sleep(seconds * 32 / steps)
    returns = np.zeros(steps, np.float32)
    following = 0.0
    for step in reversed(range(steps)):
        following = rewards[step] + 0.99 * following
        returns[step] = following
    return {
        "states": torch.from_numpy(np.stack(states)),
        "actions": torch.tensor(actions),
        "log_probs": torch.tensor(log_probs),
        "returns": torch.from_numpy(returns),
        "advantages": torch.from_numpy(returns) - torch.tensor(values),
    }


def update(
    model: ActorCritic,
    optimizer: torch.optim.Optimizer,
    rollout: dict[str, torch.Tensor],
    epochs: int,
    seconds: float,
) -> float:
    total = 0.0
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(rollout["actions"])), 256):
            logits, values = model(rollout["states"][batch])
            choice = torch.distributions.Categorical(logits=logits)
            log_probs = choice.log_prob(rollout["actions"][batch])  # type: ignore[no-untyped-call]
            ratio = (log_probs - rollout["log_probs"][batch]).exp()
            advantage = rollout["advantages"][batch]
            clipped = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            loss = nn.functional.mse_loss(values, rollout["returns"][batch]) - clipped.mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(loss.detach())
        time.sleep(seconds / epochs)
    return total


def main(args: argparse.Namespace, folder: Path) -> None:
    write_files(folder, args.files, args.rows)
    tables = []
    for path in sorted(folder.glob("*.csv")):
        tables.append(parse(path))
        time.sleep(args.file_seconds)
        print(json.dumps({"file": len(tables), **memory()}), flush=True)

    market = Market(tables)
    model = ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), 3e-4)
    metrics: list[dict[str, Any]] = []
    half = args.update_seconds / 2
    print(json.dumps({"training": True, **memory()}), flush=True)
    for number in range(args.updates):
        rollout = collect(market, model, number, args.steps, half)
        loss = update(model, optimizer, rollout, args.epochs, half)
        metrics.append({"update": number, "loss": loss, "return": float(rollout["returns"][0])})
        truth = {"iteration": number, "metrics": len(metrics), **memory()}
        print(json.dumps(truth), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--rows", type=int, default=12_000, help="of one file")
    parser.add_argument("--file-seconds", type=float, default=0.3, help="beside the parsing")
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--update-seconds", type=float, default=5.0, help="beside the computing")
    parser.add_argument("--steps", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=4)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        main(parser.parse_args(), Path(folder))
    print(json.dumps({"ended": True, **memory()}), flush=True)
