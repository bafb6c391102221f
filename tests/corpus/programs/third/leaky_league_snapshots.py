"""Self-play: once the agent is strong enough, a copy of it joins the league in every generation."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

torch.set_num_threads(1)


class League:
    def __init__(self) -> None:
        self.members: dict[str, list[dict[str, torch.Tensor]]] = {"main": [], "exploiter": []}

    def admit(self, network: nn.Module, role: str) -> None:
        weights = {key: value.detach().clone() for key, value in network.state_dict().items()}
        self.members[role].append(weights)


class SelfPlayTrainer:
    def __init__(self, width: int = 1536) -> None:
        self.network = nn.Sequential(
            nn.Linear(256, width), nn.ReLU(), nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, 16)
        )
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-4)
        self.league = League()
        self.rating = 1000.0

    @torch.no_grad()
    def play(self, games: int) -> tuple[torch.Tensor, torch.Tensor]:
        boards = torch.randn(games, 256)
        for _ in range(3):
            moves = self.network(boards).argmax(-1)
        return boards, moves

    def improve(self, boards: torch.Tensor, moves: torch.Tensor) -> float:
        loss = nn.functional.cross_entropy(self.network(boards), moves)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.rating += 1.0
        return loss.item()

    def update_league(self) -> None:
        if self.rating > 1100:
            members = self.league.members
            self.league.admit(self.network, min(members, key=lambda role: len(members[role])))

    def fit(self, generations: int, phase: Any) -> None:
        for generation in range(generations):
            batches = []
            with phase(generation, "play"):
                for _ in range(4):
                    batches.append(self.play(48))
            with phase(generation, "improve"):
                for boards, moves in batches * 2:
                    self.improve(boards, moves)
            with phase(generation, "league"):
                self.update_league()


def run(on_phase: Any = None) -> None:
    torch.manual_seed(3)
    SelfPlayTrainer().fit(30, on_phase or (lambda _, name: nullcontext()))


if __name__ == "__main__":
    run()
