"""Dialogues end at random turns, so each batch of a sequence agent is of quite another size."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.distributions import Categorical

WORDS, WIDTH = 64, 192


class Speaker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.memory = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.word = nn.Linear(WIDTH, WORDS)

    def forward(self, words: Any, state: Any = None) -> tuple[Any, Any]:
        outputs, state = self.memory(self.embed(words), state)
        return self.word(outputs), state


class Dialogues:
    """The current batch only: words, what the listener felt, and the reward."""

    def __init__(self, words: Any, feelings: Any, rewards: Any) -> None:
        self.words = words
        self.feelings = feelings
        self.rewards = rewards


@torch.no_grad()
def talk(speaker: Speaker, turns: int, size: int) -> Dialogues:
    word, state = torch.zeros(size, 1, dtype=torch.long), None
    words, feelings = [word], []
    for _ in range(turns):
        logits, state = speaker(word, state)
        word = Categorical(logits=logits).sample()
        words.append(word)
        feelings.append(torch.sin(word * torch.linspace(0.0, 3.0, 6144)))
    spoken = torch.cat(words, 1)
    return Dialogues(spoken, torch.stack(feelings, 1), (spoken % 5 == 1).float().mean(1))


def learn(speaker: Speaker, optimizer: Any, batch: Dialogues) -> float:
    mood = batch.feelings.mean((1, 2))
    advantage = batch.rewards - batch.rewards.mean() + 0.1 * (mood - mood.mean())
    for start in range(0, batch.words.shape[1] - 1, 30):
        part = batch.words[:, start : start + 31]
        logits, _ = speaker(part[:, :-1])
        loss = -(Categorical(logits=logits).log_prob(part[:, 1:]).mean(1) * advantage).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(batch.rewards.mean())


def run(on_phase: Any = None) -> None:
    phase = on_phase or (lambda _, name: nullcontext())
    torch.manual_seed(2)
    speaker = Speaker()
    optimizer = torch.optim.Adam(speaker.parameters(), 1e-3)
    batch: Any = None
    for generation in range(34):
        with phase(generation, "talk"):
            turns = int(torch.randint(30, 150, ()))
            batch = talk(speaker, turns, 36)
        with phase(generation, "learn"):
            learn(speaker, optimizer, batch)
        with phase(generation, "report"):
            torch.quantile(batch.rewards, 0.9)


if __name__ == "__main__":
    run()
