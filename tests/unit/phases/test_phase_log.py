"""Phases: measured at their borders, nested, summed when fast."""

import mmap
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import pytest

from ramledger.errors import ConfigError
from ramledger.events import Event, GenerationEvent, PhaseEvent
from ramledger.phases import phase_log
from ramledger.phases.phase_log import PhaseLog
from ramledger.units import MIB
from tests.support.fake_clock import FakeClock


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    return FakeClock().installed(monkeypatch, phase_log)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    monkeypatch.setattr(phase_log, "_EARLY_SECONDS", 0.0)
    return []


def touched(size_bytes: int) -> mmap.mmap:
    """Pages of our own: malloc might reuse what it holds, and RSS would not grow."""
    pages = mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, size_bytes, 4096):
        pages[at] = 1
    return pages


def phases_in(events: list[Event]) -> list[PhaseEvent]:
    return [event for event in events if isinstance(event, PhaseEvent)]


def generations_in(events: list[Event]) -> list[int]:
    return [event.generation for event in events if isinstance(event, GenerationEvent)]


def test_growth_and_peak_belong_to_the_phase(clock: FakeClock, events: list[Event]) -> None:
    log = PhaseLog(events.append)
    kept = []
    with log.phase("evaluate", generation=0):
        kept.append(touched(8 * MIB))
        clock.advance(0.06)
    with log.phase("train"):
        touched(64 * MIB).close()
        clock.advance(0.06)
    log.finish()
    evaluate, train = phases_in(events)
    assert evaluate.growth_bytes == pytest.approx(8 * MIB, abs=2 * MIB)
    assert abs(train.growth_bytes or 0) < 2 * MIB
    assert train.peak_bytes - train.before_bytes == pytest.approx(64 * MIB, abs=4 * MIB)
    assert evaluate.peak_bytes - evaluate.before_bytes < 16 * MIB


def test_an_inner_peak_is_also_the_outer_phases(clock: FakeClock, events: list[Event]) -> None:
    log = PhaseLog(events.append)
    with log.phase("train", generation=0):
        touched(48 * MIB).close()
        with log.phase("checkpoint"):
            clock.advance(0.01)
    log.finish()
    by_name = {event.name: event for event in phases_in(events)}
    outer, inner = by_name["train"], by_name["checkpoint"]
    assert outer.peak_bytes - outer.before_bytes > 40 * MIB
    assert inner.peak_bytes - inner.before_bytes < 8 * MIB


def test_a_phase_that_comes_round_again_begins_the_next_generation(
    events: list[Event],
) -> None:
    log = PhaseLog(events.append)
    for _ in range(4):
        with log.phase("evaluate"):
            pass
        with log.phase("train"):
            pass
    log.finish()
    assert generations_in(events) == [0, 1, 2, 3]


def test_explicit_generations_keep_their_numbers(events: list[Event]) -> None:
    log = PhaseLog(events.append)
    for number in (7, 8, 9):
        log.generation(number)
        for _ in range(3):
            with log.phase("evaluate"):
                pass
    log.finish()
    assert generations_in(events) == [7, 8, 9]
    assert [event.passes for event in phases_in(events)] == [3, 3, 3]


def test_fast_loops_are_summed_not_written_one_by_one(clock: FakeClock) -> None:
    events: list[Event] = []
    log = PhaseLog(events.append)
    for number in range(5000):
        with log.phase("step", generation=number):
            clock.advance(0.001)
    log.finish()
    reported = 200 + 10  # the first, then one each half a second of the other 4.8 s
    assert len(events) == 1 + 2 * reported  # and who counts
    assert sum(event.passes for event in phases_in(events)) == 5000
    assert sum(event.measured_passes for event in phases_in(events)) < 2500


def test_decorator_and_exceptions(events: list[Event]) -> None:
    log = PhaseLog(events.append)

    @log.phase("train", generation=0)
    def train(x: int) -> int:
        """Docs stay."""
        if x < 0:
            raise ValueError(x)
        return x + 1

    assert train(1) == 2 and train.__doc__ == "Docs stay."
    with pytest.raises(ValueError, match="-1"):
        train(-1)
    assert log.now == ("", 0)


def test_wrapped_functions_travel_to_workers() -> None:
    log = PhaseLog()

    @log.phase("train")
    def train(x: int) -> int:
        return x * 2

    assert cloudpickle.loads(cloudpickle.dumps(train))(4) == 8


@pytest.mark.parametrize("name", ["", None, 3, "x" * 200])
def test_bad_names(name: Any) -> None:
    with pytest.raises(ConfigError):
        PhaseLog().phase(name)


@pytest.mark.parametrize("number", [True, 1.5, "3", None])
def test_bad_generations(number: Any) -> None:
    with pytest.raises(ConfigError):
        PhaseLog().generation(number)


def test_leaving_without_entering_is_harmless() -> None:
    PhaseLog().leave()


def test_an_outer_phase_that_comes_round_again_is_a_generation(clock: FakeClock) -> None:
    """Whatever is inside it: an algorithm's iteration holds its updates."""
    events: list[Event] = []
    log = PhaseLog(events.append)
    for _ in range(3):
        with log.phase("iteration"):
            with log.phase("update"):
                pass
            clock.advance(0.6)
    log.finish()
    assert generations_in(events) == [0, 1, 2]


def test_who_comes_in_the_middle_of_a_phase_counts_from_the_next_one_on(
    clock: FakeClock, events: list[Event]
) -> None:
    """The functions became phases within a pass of `work`: `rest` is the first that was seen."""
    log = PhaseLog(events.append)
    with log.phase("rest"):
        clock.advance(0.1)
    for _ in range(5):
        with log.phase("work"), log.phase("rest"):
            clock.advance(0.1)
    log.finish()
    assert generations_in(events) == [0, 1, 2, 3, 4]


def test_a_fast_phase_right_after_a_slow_one_is_measured(
    clock: FakeClock, events: list[Event]
) -> None:
    log = PhaseLog(events.append)
    kept = []
    for generation in range(6):
        with log.phase("send", generation=generation):
            pass
        with log.phase("learn"):
            clock.advance(0.03)
        with log.phase("send"):
            kept.append(touched(MIB))
    log.finish()
    sent = [event for event in phases_in(events) if event.name == "send"]
    assert sum(event.net_growth_bytes or 0 for event in sent[1:]) >= 4 * MIB


def test_of_very_many_fast_passes_few_are_measured(clock: FakeClock, events: list[Event]) -> None:
    log = PhaseLog(events.append)
    log.generation(0)
    for _ in range(5_000):
        with log.phase("step"):
            clock.advance(0.0001)
    log.finish()
    [step] = phases_in(events)
    assert step.passes == 5_000
    # the first pass, those that were saved up, then one each 20 ms of half a second
    earned = 0.5 / phase_log._REST_SECONDS
    assert step.measured_passes == pytest.approx(1 + phase_log._MOST_SAVED + earned, abs=1)


def test_generations_of_numpy_are_whole_numbers() -> None:
    log = PhaseLog()
    events: list[Event] = []
    log.sink = events.append
    log.generation(np.int64(3))  # type: ignore[arg-type]
    with log.phase("train", np.int32(3)):  # type: ignore[arg-type]
        pass
    log.generation(4)
    numbers = [e.generation for e in events if isinstance(e, PhaseEvent | GenerationEvent)]
    assert set(map(type, numbers)) == {int}
    for wrong in (2.5, True, "3"):
        with pytest.raises(ConfigError):
            log.generation(wrong)  # type: ignore[arg-type]
