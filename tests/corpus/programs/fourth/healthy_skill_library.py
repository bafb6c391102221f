"""Each of fourteen skills gets its network when it is first chosen,
the last one in generation 13.
"""

from collections import defaultdict
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

SKILLS, STATE, ACTION = 14, 40, 8


class Skill(nn.Module):
    def __init__(self, width: int = 448) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(STATE, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.hands = nn.Linear(width, ACTION)
        self.optimizer = torch.optim.Adam(self.parameters(), 1e-3)

    def forward(self, states: Any) -> Any:
        return torch.tanh(self.hands(self.body(states)))

    def improve(self, states: Any, wanted: Any) -> float:
        loss = (self(states) - wanted).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


class Library:
    """Skills by name, made on demand."""

    def __init__(self) -> None:
        self.skills: defaultdict[str, Skill] = defaultdict(Skill)
        self.uses: dict[str, int] = {}

    def pick(self, generation: int, turn: int) -> str:
        known = min(SKILLS, 1 + generation)
        name = f"skill-{(generation * 5 + turn * 3) % known if turn else known - 1}"
        self.uses[name] = self.uses.get(name, 0) + 1
        return name


def practice(library: Library, generation: int, turns: int) -> list[Any]:
    seen = []
    for turn in range(turns):
        name = library.pick(generation, turn)
        skill, states = library.skills[name], torch.randn(64, STATE)
        with torch.no_grad():
            for _ in range(10):
                actions = skill(states)
                states = 0.9 * states + 0.1 * torch.cat([actions] * 5, dim=1)
        seen.append((name, states))
    return seen


def learn(library: Library, seen: list[Any], rounds: int) -> None:
    for name, states in seen:
        for _ in range(rounds):
            library.skills[name].improve(states, torch.sin(states[:, :ACTION]))


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(1)
    library = Library()
    for generation in range(32):
        with phase(generation, "practice"):
            seen = practice(library, generation, turns=6)
        with phase(generation, "learn"):
            learn(library, seen, rounds=14)


if __name__ == "__main__":
    run()
