"""Classes and modules with ideas of their own: no code of theirs runs, and snapshots go on."""

import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ramledger import record
from ramledger.agent.snapshot_event import take_snapshot
from ramledger.interpreter import tracked_objects
from ramledger.objects.process_objects import read_process_objects

RAN: list[str] = []


def _runs(name: str) -> Any:
    def method(*_: Any) -> Any:
        RAN.append(name)
        raise RuntimeError(f"code of the program: {name}")

    return method


def _property(name: str) -> Any:
    return property(_runs(name))


class UnhashableMeta(type):
    def __eq__(cls, other: object) -> bool:
        RAN.append("__eq__")
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]


class RaisingMeta(type):
    __hash__ = _runs("__hash__")
    __eq__ = _runs("__eq__")
    __getattribute__ = _runs("__getattribute__")
    __instancecheck__ = _runs("__instancecheck__")
    __subclasscheck__ = _runs("__subclasscheck__")
    __setattr__ = _runs("__setattr__")


# says something else about its classes than what is so
LYING = ("__mro__", "__dict__", "__name__", "__module__", "__flags__", "__basicsize__", "__bases__")
LyingMeta: Any = type("LyingMeta", (type,), {name: _property(name) for name in LYING})


def _odd_instances() -> Iterator[Any]:
    for meta in (UnhashableMeta, RaisingMeta, LyingMeta):
        for base in (object, list, dict):
            made: Any = type.__new__(meta, "Odd", (base,), {"__module__": "__main__"})
            one: Any = object.__new__(made) if base is object else base.__new__(made)
            object.__setattr__(one, "held", np.ones(50_000))
            yield one


class Contrary:
    """Every question to an instance runs code."""

    __getattribute__ = _runs("__getattribute__")
    __len__ = _runs("__len__")
    __iter__ = _runs("__iter__")
    __hash__ = _runs("__hash__")
    __eq__ = _runs("__eq__")
    __bool__ = _runs("__bool__")
    __sizeof__ = _runs("__sizeof__")
    __class__ = _property("__class__")
    __dict__ = _property("__dict__")


class ContrarySlots(Contrary):
    __slots__ = ("held",)


class ContraryList(list[Any]):
    __len__ = _runs("__len__")
    __iter__ = _runs("__iter__")
    __getitem__ = _runs("__getitem__")
    __sizeof__ = _runs("__sizeof__")


class LazyModule(types.ModuleType):
    __getattr__ = _runs("module __getattr__")


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stubs with the names of libraries, as tests and lazy importers put there."""
    stub = types.ModuleType("torch")
    stub.Tensor = type("Tensor", (), {"__module__": "torch"})  # type: ignore[attr-defined]
    stub.__getattr__ = _runs("torch.__getattr__")  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "torch", stub)
    monkeypatch.setitem(sys.modules, "torch._C", LazyModule("torch._C"))
    monkeypatch.setitem(sys.modules, "jax", LazyModule("jax"))
    monkeypatch.setitem(sys.modules, "odd", Contrary.__new__(Contrary))


@pytest.fixture(autouse=True)
def nothing_ran() -> Iterator[None]:
    RAN.clear()
    yield
    ran = list(RAN)
    RAN.clear()
    assert ran == []


@pytest.fixture(params=["compiled", "pure"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracked_objects, "MOST_WITHOUT_REST", 100_000_000)
    if request.param == "pure":
        monkeypatch.setattr(tracked_objects, "heap_walk", None)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("census", [False, True])
def test_no_code_of_odd_classes_runs(census: bool) -> None:
    kept = list(_odd_instances())
    event, statement, _ = take_snapshot(generation=1, phase="", count_objects=census)
    assert event.tracked_objects > 0
    held = sum(entry.resident_bytes for entry in statement.entries if "kept" in entry.account)
    assert held >= len(kept) * 50_000 * 8


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("census", [False, True])
def test_no_code_of_odd_instances_runs(census: bool) -> None:
    kept = [ContraryList(), ContraryList([np.ones(50_000)])]
    plain = [Contrary.__new__(Contrary), ContrarySlots.__new__(ContrarySlots)]
    read_process_objects(objects=census)
    del kept, plain


@pytest.mark.usefixtures("way")
def test_long_lists_of_odd_instances() -> None:
    kept = [one for _ in range(100) for one in _odd_instances()]
    many = ContraryList([ContraryList([i]) for i in range(1_000)])
    read_process_objects()
    del kept, many


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize("census", [False, True])
def test_stubs_of_libraries(census: bool) -> None:
    kept = [sys.modules["torch"].Tensor() for _ in range(3)]
    take_snapshot(generation=1, phase="", count_objects=census)
    del kept


def test_a_fake_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = types.ModuleType("numpy")
    stub.ndarray = type("ndarray", (), {"__module__": "numpy"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "numpy", stub)
    kept = [stub.ndarray() for _ in range(3)]
    read_process_objects()
    del kept


def test_a_module_without_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = types.ModuleType("empty")
    empty.__dict__.clear()
    monkeypatch.setitem(sys.modules, "empty", empty)
    monkeypatch.setitem(sys.modules, 5, empty)  # type: ignore[misc]
    monkeypatch.setattr(sys, "argv", [])
    read_process_objects()


def test_a_snapshot_that_fails_does_not_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("for a test")

    monkeypatch.setattr("ramledger.statement.own.read_process_objects", fails)
    statement = record().snapshot("a")
    assert not statement.inside
    assert any("RuntimeError: for a test" in note for note in statement.notes)
    assert sum(e.resident_bytes for e in statement.entries) + statement.unexplained_bytes == (
        statement.rss_bytes
    )
