"""Locals of running frames: seen, and not disturbed."""

import gc
import sys
import threading
import weakref
from typing import Any

import pytest

from ramledger.interpreter import frames
from ramledger.interpreter.frames import frame_locals, running_frames
from ramledger.interpreter.own_memory import OwnMemory, Reader


class Thing:
    """Something a local may hold."""


def _names(frames: list[Any]) -> set[str]:
    return {name for frame in frames for name, _ in frame_locals(frame)}


def test_locals_of_other_threads_are_seen() -> None:
    ready, done = threading.Event(), threading.Event()

    def work() -> None:
        only_here = Thing()
        ready.set()
        done.wait()
        del only_here

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    try:
        assert "only_here" in _names(running_frames())
    finally:
        done.set()
        thread.join()


def test_reading_twice_sees_the_change() -> None:
    first = 1
    assert "first" in _names(running_frames())
    second = first + 1
    assert "second" in _names(running_frames()), second


def test_a_deleted_local_dies_at_once() -> None:
    def work() -> Any:
        thing = Thing()
        alive = weakref.ref(thing)
        assert "thing" in _names(running_frames())
        del thing
        return alive

    gc.disable()
    try:
        assert work()() is None
    finally:
        gc.enable()


def test_a_returned_function_leaves_nothing_behind() -> None:
    def work() -> Any:
        thing = Thing()
        running_frames()
        return weakref.ref(thing)

    gc.disable()
    try:
        assert work()() is None
    finally:
        gc.enable()


def test_what_the_program_got_from_locals_stays_as_it_was() -> None:
    def work(lr: float) -> dict[str, Any]:
        settings = locals()
        noise = Thing()
        frame_locals(sys._getframe())
        del noise
        return settings

    assert work(0.1)["lr"] == 0.1
    assert "noise" not in work(0.1)


def test_module_and_class_namespaces_are_left_alone() -> None:
    source = "x = 1\nclass C:\n    y = 2\n    read(frame())\nread(frame())\n"
    scope: dict[str, Any] = {"read": frame_locals, "frame": sys._getframe}
    exec(compile(source, "module.py", "exec"), scope)
    assert scope["x"] == 1 and scope["C"].y == 2


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="locals are not copied any more")
def test_a_frame_that_ends_meanwhile_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read of it then may be any number, such as one beyond all addresses."""

    class Memory(OwnMemory):
        def reader(self) -> Reader:
            numbers = iter([(1 << 64) - 4096])
            read = super().reader()
            return lambda at, count: (found,) if (found := next(numbers, 0)) else read(at, count)

    monkeypatch.setattr(frames, "OwnMemory", Memory)
    assert frame_locals(sys._getframe()) == []
