"""Version numbers are compared by their numbers, whatever follows these."""

import pytest

from ramledger.version_numbers import release


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("2.7.1", (2, 7, 1)), ("2.7.0", (2, 7)), ("2.7", (2, 7)), ("2.7.1rc1", (2, 7, 1)),
        ("2.13.0+cpu", (2, 13)), ("1.2a3.9", (1, 2)), ("", ()), ("unknown", ()), ("0.0", ()),
        ("1..2", (1,)), ("9" * 5000, (10**18 - 1,)),
    ],
)  # fmt: skip
def test_a_release_is_its_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert release(version) == numbers


def test_numbers_are_compared_as_numbers() -> None:
    assert release("2.10") > release("2.9.9") > release("2.9")
