"""Actor threads remember the recurrent states of every text that was ever sampled."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Lock
from typing import Any

import torch
from torch import nn
from torch.distributions import Categorical

VOCABULARY, HIDDEN, LENGTH = 48, 256, 40


class Writer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.cell = nn.GRUCell(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, tokens: Any, state: Any) -> tuple[Any, Any]:
        state = self.cell(self.embed(tokens), state)
        return self.head(state), state


class TextStates:
    def __init__(self) -> None:
        self.lock = Lock()
        self.states: dict[tuple[int, ...], Any] = {}

    def remember(self, texts: Any, states: Any) -> None:
        with self.lock:
            for text, rows in zip(texts.tolist(), states, strict=True):
                self.states[tuple(text)] = rows.clone()

    def recall(self, text: list[int]) -> Any:
        return self.states[tuple(text)]


@torch.no_grad()
def continue_prompt(writer: Writer, known: TextStates, prompt: int, beams: int) -> Any:
    state, tokens = torch.zeros(beams, HIDDEN), torch.full((beams,), prompt)
    written, states = [tokens], []
    for _ in range(LENGTH):
        logits, state = writer(tokens, state)
        tokens = Categorical(logits=logits).sample()
        written.append(tokens)
        states.append(state)
    texts = torch.stack(written, 1)
    known.remember(texts, torch.stack(states, 1))
    return texts


def sample(pool: Any, writer: Writer, known: TextStates, prompts: list[int]) -> Any:
    jobs = [pool.submit(continue_prompt, writer, known, prompt, 56) for prompt in prompts]
    return torch.cat([job.result() for job in jobs])


def reinforce(writer: Writer, critic: Any, optimizer: Any, texts: Any, known: TextStates) -> float:
    rewards = (texts[:, 1:] == texts[:, :-1] + 1).float().mean(1)
    values = critic(torch.stack([known.recall(text) for text in texts.tolist()])).mean((1, 2))
    advantage = rewards - values.detach()
    state, loss = torch.zeros(len(texts), HIDDEN), (rewards - values).square().mean()
    for place in range(0, LENGTH // 2):
        logits, state = writer(texts[:, place], state)
        loss = loss - (advantage * Categorical(logits=logits).log_prob(texts[:, place + 1])).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(rewards.mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    writer, critic, known = Writer(), nn.Linear(HIDDEN, 1), TextStates()
    optimizer = torch.optim.Adam([*writer.parameters(), *critic.parameters()], 1e-3)
    with ThreadPoolExecutor(2) as pool:
        for generation in range(24):
            with phase(generation, "sample"):
                texts = sample(pool, writer, known, [1, 13, 21, 40])
            with phase(generation, "reinforce"):
                reinforce(writer, critic, optimizer, texts, known)


if __name__ == "__main__":
    run()
