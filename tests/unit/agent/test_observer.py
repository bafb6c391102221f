"""Which tasks an observer has, and that a failing one is noted and not raised."""

import pytest

from ramledger.agent import observer as observer_module
from ramledger.agent.observer import Observer
from ramledger.agent.observer_settings import ObserverSettings
from ramledger.events import Event, NoteEvent


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    found: list[Event] = []
    monkeypatch.setattr(Observer, "_send", lambda self, event: found.append(event))
    return found


def test_a_worker_samples_no_call_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = Observer(ObserverSettings(recorder=""))
    monkeypatch.setattr(observer_module, "_was_forked", True)
    worker = Observer(ObserverSettings(recorder=""))
    assert {"call stack", "snapshot"} <= set(main._between_questions.names)
    names = ["named phases", "phase of now", "settle", "snapshot", "send"]
    assert worker._between_questions.names == names
    assert "snapshot" not in worker._at_iteration_end.names
    assert worker.tick() == 1.0


def test_a_task_that_fails_repeatedly_is_noted(sent: list[Event]) -> None:
    now = [0.0]
    observer = Observer(ObserverSettings(recorder=""), clock=lambda: now[0])

    def fail() -> None:
        raise OSError("no descriptors left")

    observer._loop.sample = fail  # type: ignore[method-assign]
    observer._make_tables()
    for _ in range(60):
        assert observer.tick() <= 0.25
        now[0] += 1.0
    assert "call stack" not in observer._between_questions.names
    [note] = [event for event in sent if isinstance(event, NoteEvent)]
    assert "'call stack'" in note.text and "no descriptors left" in note.text


def test_what_fails_at_the_end_of_an_iteration_is_not_raised(sent: list[Event]) -> None:
    observer = Observer(ObserverSettings(recorder=""))

    def fail() -> None:
        raise MemoryError

    observer._send_allocators = fail  # type: ignore[method-assign]
    observer._make_tables()
    for number in range(3):
        observer.iteration_ended(number)
