"""Who numbers iterations, and that numbers never go back."""

import pytest

from ramledger.events import Event, GenerationEvent, IterationsEvent, PhaseEvent
from ramledger.phases import pass_counter, phase_log
from ramledger.phases.loop_plan import LoopPlan
from ramledger.phases.pass_counter import PassCounter, RisingNumbers
from ramledger.phases.phase_log import FRAMEWORK, INFERRED, TRIAL, PhaseLog, Rank
from ramledger.phases.progress import Progress
from tests.support.fake_clock import FakeClock


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    monkeypatch.setattr(phase_log, "_EARLY_SECONDS", 0.0)
    monkeypatch.setattr(pass_counter, "_PASS_SECONDS", 0.0)
    return []


def counted(events: list[Event]) -> list[int]:
    """Numbers since somebody took over for the last time."""
    last = max(n for n, event in enumerate(events) if isinstance(event, IterationsEvent))
    return [event.generation for event in events[last:] if isinstance(event, GenerationEvent)]


def counters(events: list[Event]) -> list[str]:
    return [event.counted_by for event in events if isinstance(event, IterationsEvent)]


def through(log: PhaseLog, name: str, origin: str = "explicit") -> None:
    with log.phase(name, origin=origin):
        pass


def test_phases_that_the_user_names_number_alone(events: list[Event]) -> None:
    log = PhaseLog(events.append)
    for number in range(27):
        log.loop_pass(number, "train.py:parse, line 3")
    for _ in range(4):
        through(log, "evaluate")
        log.loop_pass(99, "train.py:main, line 9")
        through(log, "train")
    log.finish()
    assert counters(events) == ["train.py:parse, line 3", "phases"]
    assert counted(events) == [0, 1, 2, 3]


def test_a_phase_that_the_user_names_numbers_within_one_that_was_found(events: list[Event]) -> None:
    log = PhaseLog(events.append)
    log.loop_pass(5, "train.py:main, line 9")
    for _ in range(3):
        with log.phase("step", origin=INFERRED):
            through(log, "train")
    log.finish()
    assert counted(events) == [0, 1, 2]


def test_a_trial_numbers_and_the_rollouts_within_it_do_not(events: list[Event]) -> None:
    log = PhaseLog(events.append)
    for _ in range(3):
        with log.phase(TRIAL, origin=FRAMEWORK):
            for _ in range(5):
                through(log, "collect", FRAMEWORK)
                through(log, "train", FRAMEWORK)
    log.finish()
    assert counters(events) == ["trial"]
    assert counted(events) == [0, 1, 2]
    passes = [e.passes for e in events if isinstance(e, PhaseEvent) and e.name == "collect"]
    assert passes == [5, 5, 5]


def test_a_loop_around_rollouts_numbers_and_they_do_not(events: list[Event]) -> None:
    log = PhaseLog(events.append)
    for chunk in range(4):
        if chunk:
            log.loop_pass(chunk, "train.py:main, line 9", around=True)
        for _ in range(3):
            through(log, "collect", FRAMEWORK)
    log.finish()
    assert counters(events) == ["collect", "train.py:main, line 9"]
    assert counted(events) == [1, 2, 3]


def test_a_loop_that_calls_a_framework_now_and_then_goes_on_counting(events: list[Event]) -> None:
    log = PhaseLog(events.append)
    log.is_in_loop = lambda: True
    for number in range(6):
        log.loop_pass(number, "train.py:main, line 9", around=log.rank == Rank.LOOP_AROUND)
        if number == 3:
            through(log, "evaluate", FRAMEWORK)
    log.finish()
    assert counters(events) == ["train.py:main, line 9"]
    assert counted(events) == [0, 1, 2, 3, 4, 5]


def test_a_framework_takes_over_from_a_loop_that_has_ended(events: list[Event]) -> None:
    log = PhaseLog(events.append)
    log.loop_pass(26, "train.py:parse, line 3")
    for _ in range(3):
        through(log, "collect", FRAMEWORK)
    log.finish()
    assert counted(events) == [0, 1, 2]


def test_a_better_loop_begins_anew(events: list[Event]) -> None:
    log = PhaseLog(events.append)
    for number in range(126):
        log.loop_pass(number, "train.py:parse, line 3")
    for number in range(1, 5):
        log.loop_pass(number, "train.py:main, line 9")
    log.finish()
    assert counted(events) == [1, 2, 3, 4]


def test_numbers_that_the_program_gives_go_on_with_every_trial(events: list[Event]) -> None:
    log = PhaseLog(events.append)
    for _ in range(3):
        for number in range(4):
            log.generation(number)
    log.finish()
    assert counted(events) == list(range(12))


def test_two_threads_in_two_iterations_do_not_begin_anew() -> None:
    numbers = RisingNumbers()
    assert [numbers.of(raw) for raw in (0, 3, 4, 3, 4, 5, 0)] == [0, 3, 4, 4, 4, 5, 6]


def test_a_counter_of_steps_counts_passes() -> None:
    counter = PassCounter(LoopPlan(0, 2048, 61440, 30))
    seen = [
        counter.see(1, value, now, turned=True)
        for now, value in enumerate((0, 2048, 2048, 6144, 59392))
    ]
    assert seen == [1, 2, None, 4, 30]
    assert counter.last_number == 30


def test_a_loop_that_starts_again_goes_on() -> None:
    counter = PassCounter(LoopPlan(0, 1, 3, 3))
    values = [(frame, value) for frame in (1, 2, 3) for value in range(3)]
    seen = [
        [counter.see(*pair, now + more, turned=True) for more in (0, 0.5)]
        for now, pair in enumerate(values)
    ]
    # in another frame it is sure with the second reading
    assert seen == [[n, None] if n % 3 or not n else [None, n] for n in range(9)]
    assert counter.last_number is None


def test_what_another_thread_has_seen_already_is_not_seen_again() -> None:
    counter = PassCounter(LoopPlan(0, 1, 99, 99))
    seen = [counter.see(1, value, now, turned=True) for now, value in enumerate((3, 9, 5, 10, 8))]
    assert seen == [3, 9, None, 10, None]
    assert counter.last_number == 98


def test_items_are_counted_one_by_one() -> None:
    counter = PassCounter(LoopPlan(passes=3))
    seen = [counter.see(1, f"at {n}", n, turned=n != 1) for n in range(3)]
    assert seen == [2, None, 3]  # a loop that turns begins its second pass
    assert counter.last_number == 3


def test_steps_of_new_models_are_added_up(events: list[Event]) -> None:
    log = PhaseLog(events.append)
    for _ in range(2):
        for steps in (0, 256, 512):
            log.enter("collect", None, FRAMEWORK, Progress(steps, 768, 2))
            log.leave()
    log.finish()
    reported = [event for event in events if isinstance(event, GenerationEvent)]
    assert [event.steps for event in reported] == [256, 512, 512, 768, 1024, 1024]
    assert [event.last_generation for event in reported] == [2, 2, None, None, None, None]


def test_the_last_iteration_is_measured_when_its_last_phase_ends(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(0.0).installed(monkeypatch, phase_log)
    log = PhaseLog(events.append)
    for _ in range(2):
        with log.phase("train"):
            clock.advance(1.0)
    clock.advance(60.0)  # what comes after the training
    with log.phase("plot"):
        clock.advance(5.0)
    assert log.left_at == 2.0
    log.finish()
    last = [event for event in events if isinstance(event, GenerationEvent)][-1]
    assert (last.t, last.generation, last.is_final) == (2.0, 1, False)
