"""Which phase adds to a container: counted at the borders of phases, found by path each time."""

import gc
import time
import weakref
from typing import Any, ClassVar

import pytest

from ramledger.phases import element_counts
from ramledger.phases.element_counts import Tallies
from ramledger.phases.phase_log import PhaseBook

pytestmark = pytest.mark.serial

FILE = "test_tallies.py"
ARCHIVE: dict[str, list[int]] = {"main": [], "other": []}


class Agent:
    shared: ClassVar[list[int]] = []

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.by_name: dict[str, list[int]] = {"loss": []}


@pytest.mark.parametrize(
    ("path", "add"),
    [
        ("trained.agent.log", lambda agent: agent.log.append(1)),
        ("trained.agent.by_name", lambda agent: agent.by_name["loss"].append(1)),
        ("trained.agent.by_name['loss']", lambda agent: agent.by_name["loss"].append(1)),
        ("trained.agents[*].log", lambda agent: agent.log.append(1)),
        ("ARCHIVE", lambda agent: ARCHIVE["other"].append(1)),
        ("Agent.shared", lambda agent: agent.shared.append(1)),
    ],
)
def test_the_phase_that_adds_is_told(path: str, add: Any) -> None:
    def trained() -> dict[str, dict[str, int]]:
        agent = Agent()
        agents = [agent]
        found = Tallies()
        found.follow([f"{FILE}:{path}"])
        for _ in range(5):
            found.border("", outermost=True)
            add(agents[0])
            found.border("evaluate", outermost=False)
            found.border("", outermost=True)
            found.border("train", outermost=False)
        return found.take()

    assert trained() == {f"{FILE}:{path}": {"evaluate": 5}}


@pytest.mark.parametrize(
    "path",
    ["", "nowhere.py:x.y", f"{FILE}:missing", f"{FILE}:Agent.missing", f"{FILE}:tallies", "a:b[",
     f"{FILE}:ARCHIVE['missing']", f"{FILE}:ARCHIVE[3]", "<Env>.log"],
)  # fmt: skip
def test_what_is_not_found_is_not_told(path: str) -> None:
    found = Tallies()
    found.follow([path])
    for _ in range(3):
        found.border("a", outermost=True)
    assert found.take() == {}


def test_nothing_is_kept_alive() -> None:
    class Held(list[int]):
        pass

    found = Tallies()
    found.follow([f"{FILE}:used.held"])

    def used() -> "weakref.ref[Held]":
        held = Held([1])
        found.border("", outermost=True)
        return weakref.ref(held)

    reference = used()
    gc.collect()
    assert reference() is None


def test_the_cost_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_counts, "_SHARE", 0.0)
    monkeypatch.setattr(element_counts, "_CREDIT_SECONDS", 0.001)

    def slow(_: Any) -> dict[str, int]:
        time.sleep(0.002)
        return {}

    monkeypatch.setattr(element_counts, "_lengths", slow)
    found = Tallies()
    found.follow([f"{FILE}:ARCHIVE"])
    started = time.perf_counter()
    for _ in range(100):
        found.border("", outermost=True)
    assert time.perf_counter() - started < 0.1


def test_a_generation_tells_what_its_phases_added() -> None:
    events: list[dict[str, Any]] = []
    book = PhaseBook(events.append)
    book.tallies.follow([f"{FILE}:train.kept"])

    def train() -> None:
        kept: list[int] = []
        for generation in range(4):
            with book.phase("collect", generation=generation):
                kept.append(generation)
            with book.phase("learn"):
                pass

    train()
    book.finish()
    added = [e.get("added") for e in events if e["event"] == "generation"]
    assert {f"{FILE}:train.kept": {"collect": 1}} in added
    assert all(set(one[f"{FILE}:train.kept"]) == {"collect"} for one in added if one)
