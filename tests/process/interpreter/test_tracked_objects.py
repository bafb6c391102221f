"""Walking over the collector's lists: all objects once, beside threads that change the lists."""

import gc
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections import Counter
from typing import Any

import pytest

from ramledger.interpreter import tracked_objects
from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.interpreter.tracked_objects import ArrayFacts, TrackedObjects, What, is_compiled

needs_compiled = pytest.mark.skipif(not is_compiled(), reason="the part in C is not compiled")


class Wanted:
    pass


class Everything:
    """A search that keeps nothing: all objects are gone through, with their referents."""

    def __init__(self) -> None:
        self.held: Counter[type] = Counter()

    def facts(self) -> ArrayFacts:
        return ArrayFacts(None, (), (), None, 1 << 16, 100)

    def take_described(self, rows: list[tuple[Any, ...]]) -> None:
        assert rows == []

    def take_others(self, arrays: list[Any]) -> None:
        self.held.update(map(type, arrays))

    def take_holders(self, holders: list[Any]) -> None:
        self.held.update(map(type, holders))


def classify(kind: type) -> What:
    return What.COLLECT if kind is Wanted else What.COUNT


def collected(walk: TrackedObjects) -> list[Any]:
    return [obj for chunk in walk for obj in chunk if type(obj) is Wanted]


@pytest.fixture(params=["compiled", "pure"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pure":
        monkeypatch.setattr(tracked_objects, "heap_walk", None)
        monkeypatch.setattr(tracked_objects, "MOST_WITHOUT_REST", 100_000_000)
    elif not is_compiled():
        pytest.skip("the part in C is not compiled")
    return str(request.param)


def test_this_environment_has_the_compiled_part() -> None:
    """Or it is one in which the collector's lists are not known."""
    headers = os.path.join(sysconfig.get_path("include"), "Python.h")
    if shutil.which("cc") is None or not os.path.exists(headers):
        pytest.skip("there is no C compiler, or Python.h is missing")
    is_known = (3, 11) <= sys.version_info < (3, 14) and not getattr(sys, "abiflags", "")
    assert is_compiled() == is_known


@pytest.mark.usefixtures("way")
def test_every_instance_is_met_once() -> None:
    kept = [Wanted() for _ in range(50_000)]
    gc.collect(1)
    kept += [Wanted() for _ in range(1_000)]
    walk = TrackedObjects(classify, Allowance())
    met = Counter(map(id, collected(walk)))
    assert met == Counter(map(id, kept))
    assert {kind.__name__: n for kind, n in walk.counts if kind is Wanted} == {"Wanted": 51_000}


@pytest.mark.usefixtures("way")
def test_the_counts_are_those_of_the_collector() -> None:
    expected = Counter(type(obj).__name__ for obj in gc.get_objects())
    walk = TrackedObjects(classify, Allowance())
    for _ in walk:
        pass
    found: Counter[str] = Counter()
    for kind, count in walk.counts:
        found[kind.__name__] += count
    for name in ("dict", "function", "tuple", "type", "cell"):
        assert found[name] == pytest.approx(expected[name], rel=0.01, abs=20)


@pytest.mark.usefixtures("way")
def test_tuples_are_counted_and_never_held() -> None:
    kept: list[Any] = [(i, []) for i in range(10_000)]
    search = Everything()
    walk = TrackedObjects(lambda kind: What.COLLECT, Allowance(), search)
    for chunk in walk:
        assert not any(type(obj) is tuple for obj in chunk)
    assert search.held[tuple] == 0
    assert sum(count for kind, count in walk.counts if kind is tuple) >= 10_000
    del kept


def test_without_the_compiled_part_large_programs_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracked_objects, "heap_walk", None)
    monkeypatch.setattr(tracked_objects, "MOST_WITHOUT_REST", 10)
    walk = TrackedObjects(classify, Allowance())
    assert list(walk) == []
    assert walk.counts == []
    assert "not counted" in walk.why_not


@needs_compiled
def test_a_walk_stops_when_its_time_is_spent() -> None:
    walk = TrackedObjects(classify, Allowance(0.0))
    assert list(walk) == []
    assert walk.why_not


@needs_compiled
def test_the_lists_are_as_before() -> None:
    gc.collect()
    before = len(gc.get_objects())
    walk = TrackedObjects(classify, Allowance())
    for _ in walk:
        break  # left in the middle
    del walk
    gc.collect()
    assert len(gc.get_objects()) == pytest.approx(before, rel=0.02)
    kept = Wanted()
    assert any(obj is kept for obj in gc.get_objects())


@needs_compiled
def test_beside_collections_and_freezes() -> None:
    """Lists merge, move and vanish while a walk rests: nothing crashes, old objects are met."""
    kept = [Wanted() for _ in range(20_000)]
    gc.collect()
    stop = threading.Event()

    def disturb() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            garbage: list[Any] = [[i, {"a": (i,)}] for i in range(500)]
            garbage.append(garbage)
            if number % 7 == 0:
                gc.collect(number % 3)
            if number % 50 == 0:
                gc.freeze()
                gc.unfreeze()

    threads = [threading.Thread(target=disturb) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        walks = 0
        while walks < 30:
            search = Everything() if walks % 2 == 1 else None
            walk = TrackedObjects(classify, Allowance(), search)
            met = {id(obj) for obj in collected(walk)}
            assert met <= {id(obj) for obj in kept}
            walks += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    gc.collect()
    walk = TrackedObjects(classify, Allowance())
    assert len(collected(walk)) == 20_000


@needs_compiled
def test_walks_beside_each_other_meet_every_instance_once() -> None:
    """One of them has the stations; the other passes through them."""
    kept = [Wanted() for _ in range(60_000)]
    gc.collect()
    first = iter(one := TrackedObjects(classify, Allowance()))
    second = iter(other := TrackedObjects(classify, Allowance()))
    met: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    walks = [(first, met[0]), (second, met[1])]
    while walks:
        for walk, seen in list(walks):
            chunk = next(walk, None)
            if chunk is None:
                walks.remove((walk, seen))
            else:
                seen.update(id(obj) for obj in chunk if type(obj) is Wanted)
            del chunk
    assert met[0] == met[1] == Counter(map(id, kept))
    assert dict(one.counts)[Wanted] == dict(other.counts)[Wanted] == 60_000


@needs_compiled
def test_instances_are_met_once_however_the_lists_change_between_walks() -> None:
    """Stations stay in the lists: objects come, go and move around them."""
    kept = [Wanted() for _ in range(100_000)]
    for number in range(8):
        walk = TrackedObjects(classify, Allowance())
        assert Counter(map(id, collected(walk))) == Counter(map(id, kept))
        del kept[:: number + 2]
        kept += [Wanted() for _ in range(3_000 * number)]
        if number % 2:
            gc.collect()
        if number == 5:
            gc.freeze()
            assert collected(TrackedObjects(classify, Allowance())) == []
            gc.unfreeze()


@needs_compiled
def test_odd_arguments_are_errors() -> None:
    from ramledger.interpreter import heap_walk

    with pytest.raises(ValueError, match="layout is not known"):
        heap_walk.new_walk(1, 2, 3, 1)
    walk = heap_walk.new_walk(*gc.get_threshold(), 1)
    with pytest.raises(ValueError, match="odd"):
        heap_walk.search(walk, list, (), (), None, 0, 0)
    with pytest.raises((TypeError, ValueError)):
        heap_walk.go_on("walk", 10)  # type: ignore[arg-type]


@needs_compiled
def test_in_a_subinterpreter_and_after_a_fork() -> None:
    program = (
        "import gc, os\n"
        "from ramledger.interpreter.tracked_objects import TrackedObjects, What\n"
        "from ramledger.interpreter.cpu_allowance import Allowance\n"
        "def count():\n"
        "    walk = TrackedObjects(lambda kind: What.COUNT, Allowance())\n"
        "    list(walk)\n"
        "    return sum(n for _, n in walk.counts)\n"
        "assert abs(count() - len(gc.get_objects())) < 200\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(0 if abs(count() - len(gc.get_objects())) < 200 else 1)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "import _xxsubinterpreters as interpreters\n"
        "other = interpreters.create()\n"
        "source = 'import sys; sys.path[:] = ' + repr(__import__('sys').path) + '\\n'\n"
        "source += 'import gc\\n'\n"
        "interpreters.run_string(other, source)\n"
        "assert abs(count() - len(gc.get_objects())) < 200\n"
        "interpreters.destroy(other)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
