"""Loops: read off the bytecode, turns seen in samples, growth booked to functions."""

import heapq
import sys
import types
from typing import Any

from ramledger.phases.loop_finder import LoopFinder, loops_of, name_of, turned_loop, variable_of


def training() -> None:  # lines matter: the test reads them
    for _ in range(3):
        evaluate()
        for _ in range(2):
            step()
            learn()
        finish()


def evaluate() -> None: ...
def step() -> None: ...
def learn() -> None: ...
def finish() -> None: ...


FIRST = training.__code__.co_firstlineno


def test_loops_are_read_off_the_bytecode() -> None:
    outer, inner = loops_of(training.__code__)
    assert outer == (FIRST + 1, FIRST + 6)
    assert inner[0] == FIRST + 3 and inner[1] == FIRST + 5
    assert loops_of(evaluate.__code__) == ()


def test_while_loops_count() -> None:
    def waiting(n: int) -> None:
        while n:
            n -= 1
            evaluate()

    assert len(loops_of(waiting.__code__)) >= 1


def test_a_turn_is_of_the_innermost_loop_around_both_lines() -> None:
    code = training.__code__
    outer, inner = loops_of(code)
    assert turned_loop(code, FIRST + 5, FIRST + 4) == inner
    assert turned_loop(code, FIRST + 6, FIRST + 2) == outer
    assert turned_loop(code, FIRST + 2, FIRST + 6) is None
    assert turned_loop(code, FIRST + 5, FIRST + 2) == outer


class FakeFrame:
    """A frame as far as the finder looks at it."""

    def __init__(self, code: types.CodeType, line: int) -> None:
        self.f_code, self.f_lineno = code, line
        self.f_globals: dict[str, Any] = {}
        self.f_locals: dict[str, Any] = {}


def test_the_outermost_loop_that_turns_is_the_training_loop() -> None:
    finder = LoopFinder()
    frame: Any = FakeFrame(training.__code__, FIRST + 2)
    callee: Any = FakeFrame(evaluate.__code__, evaluate.__code__.co_firstlineno)
    turns = 0
    rss = 0
    for _ in range(6):
        for line in (FIRST + 2, FIRST + 4, FIRST + 5, FIRST + 4, FIRST + 5, FIRST + 6):
            frame.f_lineno = line
            frames = [frame, callee] if line == FIRST + 2 else [frame]
            rss += 1000 if line == FIRST + 2 else 0
            turns += finder.sample(frames, {"rss": rss}, 0.05)
    assert 3 <= turns <= 5  # six rounds make five turns, one to believe it
    assert finder.current([frame, callee]) == (name_of(training.__code__), "evaluate")
    sums = finder.take_sums()
    assert sums.growth_bytes["rss"][name_of(evaluate.__code__)] == 5000
    assert sums.samples == 36
    assert finder.take_sums().samples == 0


def test_frames_of_this_very_test_are_users() -> None:
    from ramledger.phases.loop_finder import main_thread_id, user_frames

    names = [frame.f_code.co_name for frame in user_frames(main_thread_id())[0]]
    assert names[-1] == sys._getframe().f_code.co_name


def test_a_loop_variable_tells_turns_that_lines_cannot() -> None:
    """A loop whose one call takes all the time is always seen at the same line."""
    from ramledger.phases.loop_finder import main_thread_id, user_frames

    finder = LoopFinder()
    numbers = []

    def look() -> None:
        frames, _ = user_frames(main_thread_id())
        if finder.sample(frames, {}, 0.01):
            numbers.append(finder.number)
        frames.clear()

    for generation in range(8):  # noqa: B007
        for _ in range(3): look()  # fmt: skip  # noqa: E701
    assert numbers == [2, 3, 4, 5, 6, 7]


def counting() -> int:
    generation = steps = 0
    while generation < 3:
        evaluate()
        for _ in range(2):
            steps += 1
        generation = generation + 1
    return steps


def numbered() -> None:
    for index, name in enumerate("ab"):
        print(index, name)


def test_a_while_loop_is_followed_by_its_counter() -> None:
    outer, inner = loops_of(counting.__code__)
    assert variable_of(counting.__code__, outer) == "generation"
    assert variable_of(counting.__code__, inner) == "_"


def test_the_first_of_several_loop_variables_is_followed() -> None:
    (loop,) = loops_of(numbered.__code__)
    assert variable_of(numbered.__code__, loop) == "index"


def test_frames_called_by_a_library_are_not_the_outer_ones() -> None:
    from ramledger.phases.loop_finder import main_thread_id, user_frames

    found = []

    def key(number: int) -> int:
        frames, outer = user_frames(main_thread_id())
        found.append([frame.f_code.co_name for frame in frames[:outer]])
        frames.clear()
        return number

    heapq.nsmallest(2, [3, 1, 2], key=key)  # written in Python, in the standard library
    assert all("key" not in names for names in found)
    assert found


def test_a_loop_variable_that_a_comprehension_uses_is_followed() -> None:
    def counting(rows: list[int]) -> None:
        for generation in range(len(rows)):
            rows[0] = sum(generation * row for row in rows)
            evaluate()

    [loop] = loops_of(counting.__code__)
    assert variable_of(counting.__code__, loop) == "generation"
