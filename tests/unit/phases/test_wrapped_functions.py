"""Phases by name: user functions wherever they are, framework methods when they are imported."""

import sys
import types
from collections import Counter
from inspect import unwrap
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3 import PPO
from stable_baselines3.common import on_policy_algorithm

from ramledger.events import Event, PhaseEvent
from ramledger.phases.phase_log import PhaseLog
from ramledger.phases.wrapped_functions import FRAMEWORK_METHODS, NamedPhases, wrap_framework

SOURCE = """
class Trainer:
    def evaluate(self): return 'method'
class Other:
    def evaluate(self): return 'other'
def evaluate(): return 'function'
"""


@pytest.fixture
def module(tmp_path: Path) -> Any:
    made = types.ModuleType("user_training")
    made.__file__ = str(tmp_path / "user_training.py")
    exec(compile(SOURCE, made.__file__, "exec"), made.__dict__)
    sys.modules["user_training"] = made
    yield made
    del sys.modules["user_training"]


def passes(events: list[Event], log: PhaseLog) -> int:
    log.finish()
    return sum(event.passes for event in events if isinstance(event, PhaseEvent))


def test_functions_and_methods_of_that_name(module: Any) -> None:
    events: list[Event] = []
    log = PhaseLog(events.append)
    named = NamedPhases(["evaluate"], log)
    named.wrap_new()
    named.wrap_new()
    assert module.evaluate() == "function"
    assert module.Trainer().evaluate() == "method"
    assert named.found == {"evaluate"}
    assert passes(events, log) == 2


def test_a_full_name_means_just_that_one(module: Any) -> None:
    events: list[Event] = []
    log = PhaseLog(events.append)
    NamedPhases(["user_training:Trainer.evaluate"], log).wrap_new()
    module.evaluate()
    module.Other().evaluate()
    module.Trainer().evaluate()
    assert passes(events, log) == 1


def test_libraries_are_left_alone() -> None:
    before = sys.modules["json"].dumps
    NamedPhases(["dumps"], PhaseLog()).wrap_new()
    assert sys.modules["json"].dumps is before


def test_frameworks_are_wrapped_once_and_work(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []
    log = PhaseLog(events.append)
    algorithm = on_policy_algorithm.OnPolicyAlgorithm
    # a recording of another test in this process may have wrapped them before
    monkeypatch.setattr(algorithm, "collect_rollouts", unwrap(algorithm.collect_rollouts))
    monkeypatch.setattr(PPO, "train", unwrap(PPO.train))
    for name in (on_policy_algorithm.__name__, PPO.__module__):
        assert name in FRAMEWORK_METHODS
        wrap_framework(sys.modules[name], log)
        wrap_framework(sys.modules[name], log)
    PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, device="cpu").learn(128)
    log.finish()
    counts: Counter[str] = Counter()
    for event in events:
        if isinstance(event, PhaseEvent):
            counts[event.name] += event.passes
    assert counts == {"collect": 2, "train": 2}
