"""Text that fits: never wider than asked, in any script, and still to be recognized."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ramledger.report.terminal.text_layout import (
    bar,
    cut,
    cut_middle,
    in_ascii,
    left,
    right,
    short_command,
    whole_phrases,
    wrapped,
)


@given(st.text(max_size=80), st.integers(0, 60))
def test_what_is_cut_fits(text: str, width: int) -> None:
    assert cell_len(cut(text, width)) <= width
    assert cell_len(cut_middle(text, width)) <= width
    assert cell_len(left(text, width)) == width


@given(st.text(max_size=40), st.integers(40, 80))
def test_what_fits_is_left_alone(text: str, width: int) -> None:
    if cell_len(text) <= width:
        assert cut(text, width) == cut_middle(text, width) == text


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, "leak: a.py:8 adds to rows, which is never cleared: 2.5 MiB a step, since 0"),
        (70, "leak: a.py:8 adds to rows, which is never cleared: 2.5 MiB a step"),
        (60, "leak: a.py:8 adds to rows, which is never cleared"),
        (30, "leak: a.py:8 adds to rows"),
        (10, "leak"),
        (3, "le…"),
    ],
)
def test_a_sentence_ends_where_a_phrase_ends(width: int, shown: str) -> None:
    text = "leak: a.py:8 adds to rows, which is never cleared: 2.5 MiB a step, since 0"
    assert whole_phrases(text, width) == shown


def test_a_path_keeps_both_ends() -> None:
    path = "variables/train.py:main.trainer.agent.replay.observations"
    shown = cut_middle(path, 32)
    assert shown.startswith("variables/")
    assert shown.endswith("replay.observations")
    assert len(shown) == 32


def test_numbers_are_never_cut() -> None:
    assert right("12345", 3) == "12345"
    assert right("5", 3) == "  5"


@pytest.mark.parametrize(
    ("fraction", "drawn"),
    [(0.0, "    "), (1.0, "████"), (0.5, "██  "), (1 / 32, "▏   "), (7.0, "████"), (-1.0, "    ")],
)
def test_a_bar_has_always_its_width(fraction: float, drawn: str) -> None:
    assert bar(fraction, 4) == drawn


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("sleep 5", "sleep 5"),
        ("/usr/bin/python3 train.py --lr 1e-3", "python3 train.py --lr 1e-3"),
        (
            "python /home/me/projects/trading/experiments/train.py",
            "python …/experiments/train.py",
        ),
        (
            "/usr/bin/python -c 'from multiprocessing.forkserver import main; main(11, 14)'",
            "forkserver (python)",
        ),
        (
            "/usr/bin/python -c 'from multiprocessing.spawn import spawn_main; spawn_main()'",
            "spawn (python)",
        ),
        ("[kworker/0:1]", "[kworker/0:1]"),
        ("", ""),
    ],
)
def test_commands_are_told_apart_when_short(command: str, shown: str) -> None:
    assert short_command(command, 60) == shown


@given(st.text(max_size=300), st.integers(8, 100))
def test_any_command_fits_and_is_inert(command: str, width: int) -> None:
    shown = short_command(command, width)
    assert cell_len(shown) <= width
    assert shown.isprintable()


def test_lines_break_between_parts() -> None:
    parts = ["RSS 1.0 MiB", "virtual 2.0 MiB", "3 threads"]
    assert wrapped(parts, 30) == ["RSS 1.0 MiB · virtual 2.0 MiB", "3 threads"]
    assert wrapped(parts, 5) == parts
    assert wrapped([], 30) == []


def test_marks_have_ascii_twins_of_the_same_width() -> None:
    marked = "a…b · 3×4 → " + bar(0.4, 8)
    assert in_ascii(marked).isascii()
    assert len(in_ascii(marked)) == len(marked)
