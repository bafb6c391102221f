"""Which phase adds to a container: counted at the borders of phases, found by path each time."""

import gc
import weakref
from typing import Any, ClassVar

import pytest

from ramledger.events import Event, GenerationEvent
from ramledger.phases import element_counts
from ramledger.phases.element_counts import ElementCounts
from ramledger.phases.phase_log import PhaseLog
from tests.support.fake_clock import FakeClock

FILE = "test_element_counts.py"
ARCHIVE: dict[str, list[int]] = {"main": [], "other": []}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Counting costs nothing unless a test says so."""
    return FakeClock().installed(monkeypatch, element_counts)


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
        found = ElementCounts()
        found.follow({path: f"{FILE}:{path}"})
        for _ in range(5):
            found.count("", outermost=True)
            add(agents[0])
            found.count("evaluate", outermost=False)
            found.count("", outermost=True)
            found.count("train", outermost=False)
        return found.take()

    assert trained() == {path: {"evaluate": 5}}


@pytest.mark.parametrize(
    "path",
    ["", "nowhere.py:x.y", f"{FILE}:missing", f"{FILE}:Agent.missing", f"{FILE}:element_counts",
     "a:b[", f"{FILE}:ARCHIVE['missing']", f"{FILE}:ARCHIVE[3]", "<Env>.log"],
)  # fmt: skip
def test_what_is_not_found_is_not_told(path: str) -> None:
    found = ElementCounts()
    found.follow({path: path})
    for _ in range(3):
        found.count("a", outermost=True)
    assert found.take() == {}


def test_nothing_is_kept_alive() -> None:
    class Held(list[int]):
        pass

    found = ElementCounts()
    found.follow({"held": f"{FILE}:used.held"})

    def used() -> "weakref.ref[Held]":
        held = Held([1])
        found.count("", outermost=True)
        return weakref.ref(held)

    reference = used()
    gc.collect()
    assert reference() is None


def test_the_cost_is_bounded(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_counts, "_SHARE", 0.01)
    monkeypatch.setattr(element_counts, "_CREDIT_SECONDS", 0.005)
    counted = []

    def slow(_: Any) -> dict[str, int]:
        counted.append(clock.now)
        clock.advance(0.002)
        return {}

    monkeypatch.setattr(element_counts, "_lengths", slow)
    found = ElementCounts()
    found.follow({"archive": f"{FILE}:ARCHIVE"})
    for _ in range(100):
        found.count("", outermost=True)
    assert len(counted) == 3  # as the credit allows
    clock.advance(1.0)  # which earns 0.01 s
    for _ in range(100):
        found.count("", outermost=True)
    assert len(counted) == 3 + 5


def test_a_generation_tells_what_its_phases_added() -> None:
    events: list[Event] = []
    phase_log = PhaseLog(events.append)
    phase_log.element_counts.follow({"kept": f"{FILE}:train.kept"})

    def train() -> None:
        kept: list[int] = []
        for generation in range(4):
            with phase_log.phase("collect", generation=generation):
                kept.append(generation)
            with phase_log.phase("learn"):
                pass

    train()
    phase_log.finish()
    added = [e.elements_added for e in events if isinstance(e, GenerationEvent)]
    assert {"kept": {"collect": 1}} in added
    assert all(set(one["kept"]) == {"collect"} for one in added if one)
