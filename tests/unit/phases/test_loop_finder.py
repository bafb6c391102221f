"""Which loop is the training loop: made-up stacks, and growth booked to functions."""

import heapq
import sys
import types
from collections.abc import Iterator
from typing import Any

from ramledger.phases.call_stack import (
    CallStack,
    Sign,
    main_thread_id,
    name_of,
    read_call_stack,
    sign_of,
)
from ramledger.phases.code_loops import loops_of, turned_loop, variable_of
from ramledger.phases.loop_finder import LoopFinder

ROWS = [1, 2, 3]


def training() -> None:  # lines matter: the test reads them
    for _ in range(30):
        evaluate()
        for _ in range(2):
            step()
            learn()
        finish()


def evaluate() -> None: ...
def step() -> None: ...
def learn() -> None: ...
def finish() -> None: ...


def parsing() -> None:
    for _ in iter(ROWS):
        evaluate()
        finish()


def playing() -> None:
    for _ in iter(ROWS):
        step()
        finish()


def seeds() -> None:
    for _ in range(3):
        training()
        finish()


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
        self.f_globals: dict[str, Any] = globals()
        self.f_locals: dict[str, Any] = {}


def stack_of(*frames: Any, inside: Sign = Sign.NONE) -> CallStack:
    return CallStack(list(frames), [inside] * len(frames), len(frames))


class FakeProgram:
    """Runs loops before a finder, a sample a line."""

    def __init__(self) -> None:
        self.finder = LoopFinder()
        self.turns = 0

    def passes(
        self, function: Any, count: int, *, inside: Sign, seconds: float = 0.1, around: Any = ()
    ) -> None:
        """Two samples a pass of the function's outermost loop."""
        code = function.__code__
        frame: Any = FakeFrame(code, 0)
        first, last = loops_of(code)[0]
        for _ in range(count):
            for line in (first + 1, last):
                frame.f_lineno = line
                stack = stack_of(*around, frame, inside=inside)
                self.turns += self.finder.sample(stack, {}, seconds / 2)

    @property
    def chosen(self) -> str:
        return self.finder.loop.code.co_name if self.finder.loop else ""


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
            turns += finder.sample(stack_of(*frames), {"rss": rss}, 0.05)
    assert turns == 5  # six rounds
    assert finder.loop is not None and finder.loop.lines == (FIRST + 1, FIRST + 6)
    assert finder.current(stack_of(frame, callee)) == (name_of(training.__code__), "evaluate")
    sums = finder.take_sums()
    assert sums.growth_bytes["rss"][name_of(evaluate.__code__)] == 5000
    assert sums.samples == 36
    assert finder.take_sums().samples == 0


def test_a_loop_that_parses_data_gives_way_to_the_one_that_trains() -> None:
    program = FakeProgram()
    program.passes(parsing, 100, inside=Sign.NONE)
    assert program.chosen == "parsing"
    program.passes(training, 2, inside=Sign.LEARNS)
    assert program.chosen == "training"
    assert program.finder.trains


def test_what_only_acts_after_the_training_does_not_replace_it() -> None:
    program = FakeProgram()
    program.passes(playing, 3, inside=Sign.ACTS)  # warm-up
    program.passes(training, 3, inside=Sign.LEARNS)
    program.passes(playing, 100, inside=Sign.ACTS)
    assert program.chosen == "training"
    assert not program.finder.is_in_loop


def test_of_equal_loops_the_one_that_lasts_longer_counts() -> None:
    program = FakeProgram()
    program.passes(parsing, 10, inside=Sign.NONE)
    program.passes(playing, 9, inside=Sign.NONE)
    assert program.chosen == "parsing"
    program.passes(playing, 3, inside=Sign.NONE)
    assert program.chosen == "playing"


def test_a_loop_inside_one_that_will_turn_waits_for_it() -> None:
    program = FakeProgram()
    outer: Any = FakeFrame(training.__code__, FIRST + 2)
    program.passes(playing, 1000, inside=Sign.ACTS, around=(outer,))
    assert program.chosen == ""
    assert program.turns == 0


def test_a_loop_inside_one_that_stands_still_counts_after_a_while() -> None:
    program = FakeProgram()
    outer: Any = FakeFrame(parsing.__code__, parsing.__code__.co_firstlineno + 2)
    program.passes(playing, 5, inside=Sign.ACTS, around=(outer,))
    assert program.chosen == ""
    program.passes(playing, 200, inside=Sign.ACTS, around=(outer,))
    assert program.chosen == "playing"


def test_a_few_passes_around_one_loop_are_not_the_iterations() -> None:
    program = FakeProgram()
    line = seeds.__code__.co_firstlineno
    outer: Any = FakeFrame(seeds.__code__, line + 2)
    program.passes(training, 100, inside=Sign.LEARNS, seconds=0.4, around=(outer,))
    for again in (line + 3, line + 2):
        outer.f_lineno = again
        program.finder.sample(stack_of(outer, inside=Sign.LEARNS), {}, 0.1)
    program.passes(training, 100, inside=Sign.LEARNS, seconds=0.4, around=(outer,))
    assert program.chosen == "training"


def test_names_say_what_trains() -> None:
    def named(name: str, path: str = "/home/me/train.py") -> Sign:
        return sign_of(compile(f"def {name}(): ...", path, "exec").co_consts[0])

    package = "/usr/lib/python3/site-packages"
    assert [named(n) for n in ("train_population", "ppo_update", "_learn", "fit")] == [
        Sign.LEARNS
    ] * 4
    assert [named(n) for n in ("step", "collect_rollouts")] == [Sign.ACTS] * 2
    assert [named(n) for n in ("load_train_data", "parse", "split_train_test")] == [Sign.NONE] * 3
    assert named("step", f"{package}/torch/optim/adam.py") == Sign.LEARNS
    assert named("step", f"{package}/gymnasium/core.py") == Sign.ACTS
    assert named("update", f"{package}/pandas/core/frame.py") == Sign.NONE


def test_what_a_frame_calls_is_known_by_its_own_depth() -> None:
    found: list[CallStack] = []

    def train() -> None:
        found.append(read_call_stack(main_thread_id()))

    train()
    stack = found[0]
    names = [frame.f_code.co_name for frame in stack.frames]
    stack.frames.clear()
    assert names[-1] == "train" and stack.inside[-1] == Sign.NONE
    assert names[-2] == sys._getframe().f_code.co_name and stack.inside[-2] == Sign.LEARNS


def looked_at(finder: LoopFinder) -> bool:
    stack = read_call_stack(main_thread_id())
    try:
        return finder.sample(stack, {}, 0.01)
    finally:
        stack.frames.clear()


def test_a_loop_variable_tells_turns_that_lines_cannot() -> None:
    """A loop whose one call takes all the time is always seen at the same line."""
    finder = LoopFinder()
    numbers = []
    for generation in range(8):
        if looked_at(finder) | looked_at(finder) | looked_at(finder):
            numbers.append(generation)
    assert numbers == [1, 2, 3, 4, 5, 6, 7]
    assert finder.loop is not None
    assert finder.loop.counter.last_number == 7


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
    found: list[list[str]] = []

    def key(number: int) -> int:
        stack = read_call_stack(main_thread_id())
        found.append([frame.f_code.co_name for frame in stack.frames[: stack.outer]])
        stack.frames.clear()
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


def test_generators_are_looked_through() -> None:
    def batches() -> Iterator[int]:
        for number in range(3):
            assert not looked_at(LoopFinder())
            yield number

    assert list(batches()) == [0, 1, 2]
