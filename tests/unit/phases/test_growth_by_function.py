"""Growth by function: what is released is taken from the function that it came from."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from ramledger.phases.growth_by_function import FunctionGrowth
from ramledger.units import MIB


def booked(changes: Iterable[tuple[str, float]]) -> Counter[str]:
    growth, level = FunctionGrowth(), 100 * MIB
    growth.add("start", level)
    for name, change in changes:
        level += round(change * MIB)
        growth.add(name, level)
    return growth.take()


def test_what_one_allocates_for_a_moment_is_not_the_next_ones_release() -> None:
    turn = [("leak", 4.0), ("leak", 4.0), ("sort", 6.0), ("leak", -6.0)]
    assert booked(turn * 5) == {"leak": 40 * MIB}


def test_a_batch_that_lives_for_a_turn_is_known_by_its_size() -> None:
    """`log` keeps 2 MiB a turn; the batch of `train` is dropped after that, in the next turn."""
    sizes = [12.0, 30.0, 8.0, 20.0]
    changes = [("train", 16.0), ("log", 2.0)]
    for before, size in zip([16.0, *sizes], sizes, strict=False):
        changes += [("train", -before), ("train", size), ("log", 2.0)]
    assert booked(changes) == {"log": 10 * MIB, "train": 20 * MIB}


def test_without_a_match_what_came_last_goes_first() -> None:
    assert booked([("a", 5.0), ("b", 1.0), ("c", 2.0), ("c", -2.9)]) == Counter(
        {"a": 5 * MIB, "b": round(0.1 * MIB)}
    )


def test_what_was_there_before_belongs_to_nobody() -> None:
    assert booked([("a", -30.0), ("b", 2.0)]) == {"b": 2 * MIB}


def test_sums_are_taken_once() -> None:
    growth = FunctionGrowth()
    growth.add("a", 0)
    growth.add("a", 10)
    assert growth.take() == {"a": 10}
    assert not growth.take()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400 * MIB)), min_size=1))
def test_all_of_it_is_the_whole_change(levels: list[tuple[str, int]]) -> None:
    growth = FunctionGrowth()
    total = 0
    for number, (name, level) in enumerate(levels):
        growth.add(name, level)
        if number % 3 == 2:  # whenever an iteration ends
            total += growth.take_all().total()
    total += growth.take_all().total()
    assert total == levels[-1][1] - levels[0][1]
