"""Version numbers of libraries, compared. `packaging` does more, and no base dependency has it."""

from itertools import takewhile

_MOST_DIGITS = 18  # of one number; the text may come from a file


def release(version: str) -> tuple[int, ...]:
    """(2, 7, 1) of "2.7.1rc1+cpu": the numbers up to the first other character.

    Zeros at the end are left out, so that 2.7 and 2.7.0 are equal.
    """
    numbers: list[int] = []
    for part in version.split("."):
        digits = "".join(takewhile(str.isdecimal, part))
        if digits:
            numbers.append(int(digits[:_MOST_DIGITS]))
        if digits != part or not digits:
            break
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
