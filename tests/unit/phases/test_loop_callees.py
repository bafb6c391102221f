"""Functions that a training loop calls become phases; one that is called all the time does not."""

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from ramledger.events import Event, GenerationEvent, PhaseEvent
from ramledger.phases import loop_callees, pass_counter
from ramledger.phases.code_loops import loops_of, variable_of
from ramledger.phases.loop_callees import InferredPhases, callees_of
from ramledger.phases.loop_finder import TrainingLoop
from ramledger.phases.loop_plan import plan_of
from ramledger.phases.pass_counter import PassCounter
from ramledger.phases.phase_log import PhaseLog

PROGRAM = """
import time

class Trainer:
    def learn(self):
        time.sleep(0.001)
        return 7
    @staticmethod
    def fixed():
        return 1

def evaluate(number):
    time.sleep(0.001)
    return number + 1

def batches():
    yield 1

def quick():
    return None

def run(look, turns=3):
    trainer = Trainer()
    for generation in range(turns):
        look()
        evaluate(generation)
        trainer.learn()
        trainer.fixed()
        list(batches())
        quick()
    return trainer
"""


@pytest.fixture
def program(tmp_path: Any) -> Iterator[types.ModuleType]:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    module = types.ModuleType("train")
    module.__file__ = str(path)
    sys.modules["train"] = module
    exec(compile(PROGRAM, str(path), "exec"), module.__dict__)
    yield module
    del sys.modules["train"]


def callees_with(log: PhaseLog) -> Any:
    phases = InferredPhases(log, lambda number, _: log.loop_pass(number, "train.py:run"))
    loops: list[TrainingLoop] = []

    def look() -> None:
        frame = sys._getframe(1)
        if not loops:
            lines = loops_of(frame.f_code)[0]
            counter = PassCounter(plan_of(frame, lines))
            variable = variable_of(frame.f_code, lines)
            loops.append(TrainingLoop(frame.f_code, lines, variable, counter))
        phases.wrap_callees(frame, loops[0])

    return look


def test_functions_and_methods_of_the_loop_are_found(program: types.ModuleType) -> None:
    found: list[str] = []

    def look() -> None:
        frame = sys._getframe(1)
        found.extend(name for _, name, _ in callees_of(frame, loops_of(frame.f_code)[0]))

    program.run(look, turns=1)
    # not a static method, nor a generator: its call returns at once
    assert found == ["evaluate", "learn", "quick"]


def test_their_calls_are_passes_through_phases(program: types.ModuleType) -> None:
    events: list[Event] = []
    log = PhaseLog(events.append)
    program.run(callees_with(log), turns=4)
    log.finish()
    passes = {e.name: e.passes for e in events if isinstance(e, PhaseEvent)}
    assert passes["evaluate"] == passes["learn"] == 4
    assert program.evaluate(3) == 4
    assert program.evaluate.__name__ == "evaluate"
    assert program.Trainer().learn() == 7


def test_a_function_that_is_called_all_the_time_is_let_alone(
    program: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_callees, "_TRIED_CALLS", 5)
    before = program.quick
    program.run(callees_with(PhaseLog()), turns=8)
    assert program.quick is before
    assert program.evaluate is not before
    assert hasattr(program.evaluate, "__wrapped__")


def test_an_error_passes_through(program: types.ModuleType) -> None:
    log = PhaseLog()
    program.run(callees_with(log), turns=1)
    with pytest.raises(TypeError):
        program.evaluate("x")
    assert log.now[0] == ""


def test_calls_tell_when_the_loop_turns(
    program: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_callees, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(pass_counter, "_PASS_SECONDS", 0.0)
    events: list[Event] = []
    log = PhaseLog(events.append)
    program.run(callees_with(log), turns=6)
    log.finish()
    numbers = [e.generation for e in events if isinstance(e, GenerationEvent)]
    assert numbers == [0, 1, 2, 3, 4, 5]


def test_calls_from_elsewhere_are_no_phases(program: types.ModuleType) -> None:
    events: list[Event] = []
    log = PhaseLog(events.append)
    program.run(callees_with(log), turns=2)
    for number in range(5):
        program.evaluate(number)
    log.finish()
    assert sum(e.passes for e in events if isinstance(e, PhaseEvent) and e.name == "evaluate") == 2


def test_phases_that_the_user_names_are_the_only_ones(program: types.ModuleType) -> None:
    events: list[Event] = []
    log = PhaseLog(events.append)
    look = callees_with(log)
    program.run(look, turns=2)
    with log.phase("own"):
        pass
    program.run(look, turns=2)
    log.finish()
    assert [event.name for event in events if isinstance(event, PhaseEvent)] == ["own"]
