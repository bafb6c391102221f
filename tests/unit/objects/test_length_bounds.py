"""Bounds of containers that the program's own code states."""

import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ramledger.objects.length_bounds import bound_of_attribute, bound_of_variable, bounds_in

LENGTH = 100
LIST = [0] * LENGTH


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "train.py"
    path.write_text(text)
    bounds_in.cache_clear()
    return str(path)


@pytest.mark.parametrize(
    ("text", "scope", "bound"),
    [
        ("if len(memory) > opt.most:\n    del memory[0]", {"opt": Namespace(most=500)}, 500),
        ("if len(memory) >= MOST:\n    memory.pop(0)", {"MOST": 500}, 500),
        ("while len(memory) > 5_000:\n    memory.pop(0)", {}, 5000),
        ("if len(memory) > cfg['most']: memory = memory[1:]", {"cfg": {"most": 500}}, 500),
        ("if len(memory) < MOST:\n    memory.append(x)\nelse:\n    put(x)", {"MOST": 500}, 500),
        ("if len(r) > MOST:\n    del r[:1]\n    del memory[:1]", {"MOST": 500}, 500),
        # not bounds
        ("if len(memory) < BATCH:\n    return", {"BATCH": 500}, None),
        ("if len(memory) > START:\n    learn(memory)", {"START": 500}, None),
        ("if len(other) > MOST:\n    other.pop(0)", {"MOST": 500}, None),
        ("if len(memory) > MOST:\n    memory.pop(0)", {"MOST": 50}, None),  # it is longer
        ("if len(memory) > MOST:\n    memory.pop(0)", {"MOST": "500"}, None),
        ("if len(memory) > MOST:\n    memory.pop(0)", {}, None),
    ],
)  # fmt: skip
def test_variables(tmp_path: Path, text: str, scope: dict[str, Any], bound: int | None) -> None:
    assert bound_of_variable(written(tmp_path, text), "memory", LIST, scope) == bound


CLASS = """
MOST = 700
class Memory:
    limit = 900
    def add(self, x):
        self.kept.append(x)
        if len(self.kept) > self.most:
            self.kept.pop(0)
        if len(self.others) > MOST:
            del self.others[0]
        if len(self.third) == self.limit:
            self.third.pop(0)
    @property
    def broken(self):
        raise RuntimeError
    def never(self):
        if len(self.fourth) > self.broken:
            self.fourth.pop(0)
"""


def test_attributes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("bounded_memory")
    module.__file__ = written(tmp_path, CLASS)
    monkeypatch.setitem(sys.modules, "bounded_memory", module)
    exec(CLASS, vars(module))
    memory = vars(module)["Memory"]()
    memory.most = 600
    found = {name: bound_of_attribute(memory, f".{name}", LIST) for name in
             ("kept", "others", "third", "fourth", "unknown")}  # fmt: skip
    assert found == {"kept": 600, "others": 700, "third": 900, "fourth": None, "unknown": None}
    assert bound_of_attribute(memory, ".kept", [1, 2]) is None


def test_a_file_that_is_none_bounds_nothing(tmp_path: Path) -> None:
    assert bound_of_variable(str(tmp_path / "absent.py"), "memory", LIST, {}) is None
    assert bound_of_variable("<string>", "memory", LIST, {}) is None
