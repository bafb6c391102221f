"""What is counted as ramledger's own: its classes with what they consist of, and its state."""

import sys
from collections import Counter
from types import ModuleType

import pytest

from ramledger.objects.census.own_objects import count_own_objects

SOURCE = """
from functools import cached_property
from typing import NamedTuple

class Pair(NamedTuple):
    one: int
    other: int

class Holder:
    @cached_property
    def value(self):
        return 1

STATE = [Pair(1, 2), {"key": [3]}]
"""


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How the counts change when a module with that name and `SOURCE` is loaded."""
    before = count_own_objects()
    module = ModuleType(name)
    exec(SOURCE, module.__dict__)
    monkeypatch.setitem(sys.modules, name, module)
    after = count_own_objects()
    after.subtract(before)
    return Counter({kind: count for kind, count in after.items() if count})


def test_a_module_of_ours_brings_its_classes_and_their_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change = loaded("ramledger.made_for_this_test", monkeypatch)
    assert change["type"] == 2
    assert change["_collections._tuplegetter"] == 2
    assert change["functools.cached_property"] == 1
    assert change["function"] >= 1


def test_state_of_ours_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    change = loaded("ramledger.made_for_this_test", monkeypatch)
    assert change["list"] == 2
    assert change["ramledger.made_for_this_test.Pair"] == 1


def test_a_module_of_the_program_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    change = loaded("made_for_this_test", monkeypatch)
    assert not change.keys() & {"type", "function", "functools.cached_property"}
    assert not [kind for kind in change if "Pair" in kind]
