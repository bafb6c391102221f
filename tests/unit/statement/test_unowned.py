"""The sentence about memory without an owner: only where there is much, and as a likelihood."""

import re

from ramledger.statement.unowned import note_on_unowned
from ramledger.units import GIB, MIB


def test_little_is_not_worth_a_sentence() -> None:
    assert note_on_unowned([], GIB) == ""
    assert note_on_unowned([7 * MIB], 100 * MIB) == ""
    assert note_on_unowned([15 * MIB], GIB) == ""


def test_it_says_how_much_where_and_only_likely_whose() -> None:
    note = note_on_unowned([64 * MIB, 32 * MIB, 8 * MIB, 2 * MIB], GIB)
    assert note.startswith("106.0 MiB of native/in use and unexplained lie in 4 places")
    assert "(64.0 MiB, 32.0 MiB, 8.0 MiB, …)" in note
    assert note.endswith("likely blocks of native code")
    assert "one place" in note_on_unowned([64 * MIB], GIB)


def test_a_library_with_an_allocator_of_its_own_is_named() -> None:
    note = note_on_unowned([64 * MIB], GIB, {"numpy", "pyarrow"})
    assert re.search(r"likely memory that pyarrow keeps for itself\Z", note)
