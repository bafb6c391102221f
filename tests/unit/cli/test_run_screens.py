"""The log of a run: a line every few seconds, on lines of its own."""

from dataclasses import replace

import pytest

from ramledger.cli.run_screens import LINE_SECONDS, Lines, RunView
from ramledger.events import (
    CurrentPhaseEvent,
    GenerationEvent,
    Header,
    IterationsEvent,
    ProcessEvent,
)
from ramledger.units import MIB

PID = 7


def iteration(number: int, t: float) -> GenerationEvent:
    size = (100 + number) * MIB
    return GenerationEvent(t=t, pid=PID, generation=number, anon_bytes=size, rss_bytes=size)


def view_of_a_run() -> RunView:
    view = RunView(Header(), Lines())
    view.saw(ProcessEvent(t=0.0, pid=PID, has_agent=True))
    return view


def test_fast_iterations_have_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    view = view_of_a_run()
    for number in range(173):
        view.saw(iteration(number, number * 20 / 173))
    view.mute()
    lines = capsys.readouterr().err.splitlines()
    assert 3 <= len(lines) <= 20 / LINE_SECONDS + 1
    assert all(line.startswith("ramledger: iteration ") for line in lines)
    assert " at 15 s · run 232.0 MiB, +" in lines[-1]


def test_a_short_run_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    view = view_of_a_run()
    for number in range(3):
        view.saw(iteration(number, float(number)))
    assert capsys.readouterr().err == ""
    view.mute()
    assert capsys.readouterr().err.startswith("ramledger: iteration 2 at 2 s · run 102.0 MiB")


def test_it_says_how_far_the_training_is(capsys: pytest.CaptureFixture[str]) -> None:
    view = view_of_a_run()
    told = iteration(3, 1.0)
    view.saw(replace(told, steps=8192, planned_steps=25_000, last_generation=12))
    view.mute()
    assert "iteration 3 of 12, step 8,192 of 25,000 at 1 s" in capsys.readouterr().err


def test_numbers_that_begin_anew_are_announced_where_some_were_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    anew = IterationsEvent(t=8.0, pid=PID, counted_by="train.py:main, line 9")
    for last in (2, 7):  # seconds of the loop before
        view = view_of_a_run()
        for t in range(last):
            view.saw(iteration(100 + t, float(t)))
        view.saw(anew)
        view.saw(iteration(1, 9.0))
        view.mute()
        text = capsys.readouterr().err
        assert ("train.py:main, line 9" in text) == ("iteration 10" in text) == (last == 7)
        assert "ramledger: iteration 1 at 9 s" in text


def test_beside_a_bar_it_begins_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    view = view_of_a_run()
    view.saw(CurrentPhaseEvent(t=0.0, pid=PID, has_bar=True))
    view.saw(iteration(1, 1.0))
    view.saw(iteration(2, 7.0))
    assert capsys.readouterr().err.startswith("\nramledger: iteration 2 at 7 s")
