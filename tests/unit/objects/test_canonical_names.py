"""One object, one name: at every length, from every frame, in every snapshot."""

import sys
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ramledger.objects.process_objects import read_process_objects

SOURCE = """
from collections import deque
import numpy as np

class Window:
    def __init__(self, values): self.values = values

class ReplayBuffer:
    def __init__(self): self.buffer = deque(maxlen=500)
    def add(self, row): self.buffer.append(row); return SEEN()

class Individual:
    def __init__(self): self.genome, self.notes = np.ones(500), [np.ones(90)]
    def mutate(self): return Individual()

class Agent:
    def __init__(self): self.weights, self.log = np.ones(40_000), []
    def act(self): self.log.append(np.ones(20_000)); return SEEN()

class Trainer:
    def __init__(self, agents):
        self.population = [Agent() for _ in range(agents)]
        self.replay_buffer = ReplayBuffer()
        self.archive = []

    def train(self, generations):
        for generation in range(generations):
            yield self.evaluate(self.population)
            yield self.evolve()
            yield self.replay_buffer.add({"state": Window(np.ones(20_000)), "reward": 1.0})
            yield from self.deeper(generation % 20)

    def evaluate(self, agents):
        for agent in agents:
            seen = agent.act()
        return seen

    def evolve(self):
        children = [Agent() for _ in self.population]
        seen = SEEN()
        self.population = children
        return seen

    def deeper(self, more):
        buffer, first = self.replay_buffer.buffer, self.population[0]
        if more:
            yield from self.deeper(more - 1)
        else:
            yield SEEN()

    def grow(self, count):
        self.archive += [Individual() for _ in range(count)]
        return SEEN()

def main(generations):
    trainer = Trainer(4)
    yield from trainer.train(generations)

def archive(counts):
    trainer = Trainer(1)
    return [trainer.grow(count) for count in counts]

def loose(counts):
    kept, seen = [], []
    for count in counts:
        for number in range(count):
            row = {"state": np.ones(300), "reward": 1.0}
            kept.append(row)
        seen.append(SEEN())
    return seen
"""


def holdings() -> Counter[str]:
    """Bytes by account."""
    found: Counter[str] = Counter()
    for one in read_process_objects(objects=False).holdings:
        blocks = sum(block.storage.reserved_bytes for block in one.blocks)
        found[one.account] += blocks + one.python_bytes + one.native_bytes
    return found


@pytest.fixture
def training(tmp_path: Path) -> Any:
    module = ModuleType("named_training")
    module.__file__ = str(tmp_path / "named_training.py")
    module.__dict__["SEEN"] = holdings
    sys.modules["named_training"] = module
    exec(compile(SOURCE, module.__file__, "exec"), module.__dict__)
    yield module
    del sys.modules["named_training"]


def large(found: Counter[str], least: int) -> set[str]:
    """Names of the program's large accounts."""
    names = ("Trainer", "Agent", "Replay", "Individual", "Window", "loose")
    return {
        account.removeprefix("variables/")
        for account, size in found.items()
        if size >= least and account.removeprefix("variables/").startswith(names)
    }


def test_names_do_not_depend_on_the_frame_or_the_moment(training: Any) -> None:
    seen = list(training.main(20))
    assert len(seen) == 80
    names = [large(found, 100_000) for found in seen[3:]]
    expected = {"Agent.weights", "Agent.log", "Trainer.replay_buffer.buffer"}
    assert set().union(*names) == expected
    assert all({"Agent.weights", "Trainer.replay_buffer.buffer"} <= found for found in names)


@pytest.mark.parametrize(
    ("program", "account", "each"),
    [
        ("archive", "Individual.genome", 4_000),
        ("archive", "Individual.notes", 700),
        ("loose", "loose():kept", 2_400),
    ],
)
def test_names_do_not_depend_on_the_length(
    training: Any, program: str, account: str, each: int
) -> None:
    counts = [100, 100, 100, 700, 3_000]
    run: Callable[[list[int]], list[Counter[str]]] = getattr(training, program)
    held = [found[f"variables/{account}"] for found in run(counts)]
    lengths = [sum(counts[: n + 1]) for n in range(len(counts))]
    per_element = [size / length for size, length in zip(held, lengths, strict=True)]
    assert min(per_element) >= each
    assert max(per_element) <= 1.05 * min(per_element) + 16


def test_owners_of_one_name_are_counted_at_any_length(training: Any) -> None:
    def instances() -> dict[str, int]:
        found = read_process_objects(objects=False).holdings
        return {one.account.removeprefix("variables/"): one.owners for one in found}

    training.SEEN = instances
    counts = [100, 700, 3_000]
    seen = training.archive(counts)
    for n, found in enumerate(seen):
        assert found["Individual.genome"] == sum(counts[: n + 1])
        assert found["Individual.notes"] == sum(counts[: n + 1])


def test_a_linked_list_has_one_name(training: Any) -> None:
    chain: Any = None
    for _ in range(50):
        link = training.Individual()
        link.parent, chain = chain, link
    deque_of = deque([chain])
    names = {name.removeprefix("variables/") for name in holdings() if "parent" in name}
    assert names <= {"Individual.parent"}
    assert len(deque_of) == 1
