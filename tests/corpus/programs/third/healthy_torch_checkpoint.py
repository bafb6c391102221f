"""Every seventh generation model,
optimizer and replay are saved to memory and written to a file.
"""

import io
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

torch.set_num_threads(1)


class Checkpointer:
    def __init__(self, folder: Path, every: int) -> None:
        self.folder, self.every = folder, every

    def maybe_save(self, generation: int, state: dict[str, Any]) -> None:
        if generation % self.every != self.every - 1:
            return
        buffer = io.BytesIO()
        torch.save(state, buffer)
        (self.folder / "latest.pt").write_bytes(buffer.getvalue())


class Trainer:
    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(600, 900), nn.ReLU(), nn.Linear(900, 600))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.replay = torch.randn(20_000, 600)

    def train(self, steps: int) -> float:
        total = 0.0
        for _ in range(steps):
            batch = self.replay[torch.randint(len(self.replay), (256,))]
            loss = nn.functional.mse_loss(self.model(batch), batch.roll(1, dims=1))
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            total += loss.item()
        return total / steps

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "replay": self.replay,
        }


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(4)
    trainer = Trainer()
    with tempfile.TemporaryDirectory() as folder:
        checkpointer = Checkpointer(Path(folder), every=7)
        for generation in range(30):
            with phase(generation, "train"):
                trainer.train(4)
            with phase(generation, "checkpoint"):
                checkpointer.maybe_save(generation, trainer.state())


if __name__ == "__main__":
    run()
