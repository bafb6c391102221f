"""Batches go to a replay server as shared tensors; the server keeps all that it was ever sent."""

from contextlib import nullcontext
from typing import Any

import torch
import torch.multiprocessing as mp

torch.set_num_threads(1)


def serve(inbox: Any, outbox: Any) -> None:
    mp.set_sharing_strategy("file_system")  # type: ignore[no-untyped-call]
    stored: list[torch.Tensor] = []
    while (batch := inbox.get()) is not None:
        stored.append(batch)
        outbox.put(float(batch[0].mean()))


class ReplayClient:
    def __init__(self) -> None:
        mp.set_sharing_strategy("file_system")  # type: ignore[no-untyped-call]
        context = mp.get_context("fork")
        self.inbox, self.outbox = context.Queue(), context.Queue()
        self.server = context.Process(target=serve, args=(self.inbox, self.outbox), daemon=True)
        self.server.start()

    def send(self, batch: torch.Tensor) -> float:
        self.inbox.put(batch)
        return float(self.outbox.get())

    def close(self) -> None:
        self.inbox.put(None)
        self.server.join()


def simulate(model: torch.nn.Module) -> torch.Tensor:
    states = torch.randn(1152, 512)
    with torch.no_grad():
        for _ in range(3):
            states = torch.tanh(states + model(states))
    return states


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(16)
    client, model = ReplayClient(), torch.nn.Linear(512, 512)
    for generation in range(20):
        with phase(generation, "simulate"):
            batches = [simulate(model) for _ in range(4)]
        with phase(generation, "send"):
            for batch in batches:
                client.send(batch)
    client.close()


if __name__ == "__main__":
    run()
