"""Roots: the user's names first, and whose file is whose."""

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramledger.interpreter.user_code import is_user_file, is_user_type
from ramledger.objects.names.walk_roots import library_roots, loop_variables, user_roots


@pytest.fixture
def user_module(tmp_path: Path) -> Any:
    module = types.ModuleType("my_training")
    module.__file__ = str(tmp_path / "my_training.py")
    source = (
        "import numpy\n"
        "buffer = numpy.zeros(10)\n"
        "number = 3\n"
        "class Env:\n    cache = {'a': 1}\n    def step(self): pass\n"
        "def run(n=[1, 2]): pass\n"
    )
    exec(compile(source, module.__file__, "exec"), module.__dict__)
    sys.modules["my_training"] = module
    yield module
    del sys.modules["my_training"]


def user_variables() -> dict[str, Any]:
    return {root.name: root.value for group in user_roots() for root in group}


def test_globals_class_attributes_and_defaults_are_roots(user_module: Any) -> None:
    found = user_variables()
    assert found["my_training.py:buffer"] is user_module.buffer
    assert found["Env.cache"] is user_module.Env.cache
    assert found["my_training.py:run"] is user_module.run
    assert "my_training.py:number" not in found
    assert "my_training.py:numpy" not in found


def test_locals_are_named_by_their_function() -> None:
    replay = np.zeros(3)
    found = next(root for group in user_roots() for root in group if root.value is replay)
    assert found.name == "test_locals_are_named_by_their_function():replay"
    assert found.access == "test_walk_roots.py:test_locals_are_named_by_their_function.replay"


def test_what_lives_longer_comes_first() -> None:
    population = [{"weights": 1.0}]

    def inner(argument: Any) -> list[str]:
        kept = argument
        assert kept is argument
        return [root.name for group in user_roots() for root in group]

    for member in population:
        names = inner(member)
    own = [name for name in names if name.startswith(("inner()", "test_what"))]
    outer = "test_what_lives_longer_comes_first():"
    assert own.index(f"{outer}population") < own.index(f"{outer}member")
    assert own.index(f"{outer}member") < own.index("inner():argument")


def test_loop_variables_are_found() -> None:
    def turning(rows: Any) -> None:
        for _i, (left, right) in enumerate(rows):
            assert left, right
        for key in rows:
            kept = key
        assert kept

    assert loop_variables(turning.__code__) == {"_i", "left", "right", "key"}


def test_libraries_are_not_the_users() -> None:
    names = [root.name for root in library_roots()]
    assert any(path.startswith("numpy") for path in names)
    assert not any(path.startswith(("ramledger", "test_walk_roots")) for path in names)


def test_whose_file() -> None:
    assert not is_user_file(np.__file__)
    assert not is_user_file(Path.exists.__code__.co_filename)
    assert not is_user_file(sys.modules["ramledger"].__file__ or "")
    assert is_user_file("/data/me/train.py")
    assert is_user_file("<stdin>") and not is_user_file("<frozen os>")


def test_whose_type(user_module: Any) -> None:
    assert is_user_type(user_module.Env)
    assert not is_user_type(np.ndarray)
    assert not is_user_type(dict)


def test_in_a_notebook_the_name_is_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = types.ModuleType("__main__")
    notebook.__dict__.update(replay=np.zeros(3), get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    monkeypatch.setattr(sys, "argv", ["/usr/lib/ipykernel_launcher.py"])
    assert user_variables()["replay"] is notebook.__dict__["replay"]
