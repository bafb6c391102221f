"""A walk beside a program that collects, freezes, and has long containers and odd objects."""

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ramledger.interpreter.cpu_allowance import Allowance
from ramledger.interpreter.tracked_objects import TrackedObjects, What, is_compiled
from ramledger.objects.census.array_search import ArraySearch
from ramledger.objects.census.live_objects import MOST_PASSES, LiveObjects, count_live_objects

pytestmark = pytest.mark.skipif(not is_compiled(), reason="the part in C is not compiled")

AT_ONCE = 20_000
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


class Wanted:
    pass


class Holder:
    def __init__(self, held: list[Wanted]) -> None:
        self.held = held


class Interrupted(Allowance):
    """Lets the program do something in the middle of a walk."""

    def __init__(self, action: Callable[[], object], at: int = 9, times: int = 1) -> None:
        super().__init__()
        self.action = action
        self.at = at
        self.times = times
        self.asked = 0

    def is_spent(self) -> bool:
        self.asked += 1
        if self.asked >= self.at and self.times > 0:
            self.times -= 1
            self.action()
        return False


def younger_holder() -> Holder:
    """A full collection brings what it holds behind it, to the end of the list."""
    held = [Wanted() for _ in range(100_000)]
    gc.collect(1)
    holder = Holder(held)
    gc.collect(1)
    return holder


def stretches(most: int = AT_ONCE) -> list[float]:
    """The CPU seconds of each stretch of a walk with a search."""
    from ramledger.interpreter import heap_walk

    walk = heap_walk.new_walk(*gc.get_threshold(), 1000)
    heap_walk.mark(walk, tuple, What.NEVER_HOLD, 0, 0, None)
    heap_walk.search(walk, None, (), (), None, 1 << 16, 100)
    taken = []
    is_end = False
    while not is_end:
        start = time.thread_time()
        _, kinds, _, _, is_end = heap_walk.go_on(walk, most)
        taken.append(time.thread_time() - start)
        assert len(taken) < 10_000
        for kind in kinds:
            heap_walk.mark(walk, kind, What.COUNT, 0, 0, None)
    return taken


@pytest.mark.parametrize("action", [gc.collect, gc.freeze])
def test_a_walk_whose_objects_were_moved_counts_nothing(action: Callable[[], object]) -> None:
    holder = younger_holder()
    walk = TrackedObjects(lambda kind: What.COUNT, Interrupted(action))
    try:
        for _ in walk:
            pass
    finally:
        gc.unfreeze()
    assert walk.is_reordered
    assert walk.counts == []
    assert "moved" in walk.why_not
    del holder


def test_a_full_collection_in_the_middle_doubles_nothing() -> None:
    holder = younger_holder()
    allowance = Interrupted(gc.collect)
    counted = dict(count_live_objects(arrays=False, allowance=allowance).counts)
    assert allowance.times == 0
    assert counted[Wanted] == len(holder.held)


def test_a_program_that_collects_all_the_time_is_not_counted() -> None:
    allowance = Interrupted(gc.collect, at=1, times=1_000)
    found = count_live_objects(arrays=True, allowance=allowance)
    assert allowance.asked == MOST_PASSES
    assert found.counts == []
    assert "moved" in found.why_not


def test_a_long_dictionary_is_read_once() -> None:
    """As a list is: each stretch goes on where the last one stopped."""
    shared: list[int] = []
    in_list = [shared] * 6_000_000
    of_list = sum(stretches())
    in_list.clear()
    in_dict = dict.fromkeys(range(3_000_000), shared)
    assert sum(stretches()) < 10 * of_list
    del in_dict


def test_a_very_long_set_is_not_read_again_and_again() -> None:
    """A set can only be read from its beginning: the whole of it would take 100 stretches."""
    without = len(stretches())
    kept = set(range(2_000_000))
    assert len(stretches()) < without + 40
    del kept


def test_a_traverse_may_return_anything() -> None:
    """The collector does not look at what it returns, so code in C need not care."""

    class Slot(ctypes.Structure):
        _fields_ = (("number", ctypes.c_int), ("function", ctypes.c_void_p))

    class Spec(ctypes.Structure):
        _fields_ = (
            ("name", ctypes.c_char_p),
            ("basic_size", ctypes.c_int),
            ("item_size", ctypes.c_int),
            ("flags", ctypes.c_uint),
            ("slots", ctypes.POINTER(Slot)),
        )

    tp_traverse, has_gc = 71, 1 << 14
    returns_a_number = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
    slots = (Slot * 2)(Slot(tp_traverse, returns_a_number), Slot(0, None))
    spec = Spec(b"tests.Odd", object.__basicsize__, 0, has_gc, slots)
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype = ctypes.py_object
    odd_type: Any = make(ctypes.byref(spec))
    before = len(stretches())
    kept = odd_type()
    assert gc.is_tracked(kept)
    assert len(stretches()) < 1.5 * before + 2  # a busy machine takes some more


def test_an_object_that_is_being_freed_is_not_freed_twice() -> None:
    """C code may forget to take it out of the collector's lists before other threads run."""
    program = (
        "import ctypes, gc\n"
        "from ramledger.interpreter import heap_walk\n"
        "class Wanted: pass\n"
        "kept = Wanted()\n"
        "count = ctypes.c_ssize_t.from_address(id(kept))\n"
        "walk = heap_walk.new_walk(*gc.get_threshold(), 1000)\n"
        "heap_walk.mark(walk, Wanted, 2, 0, 0, None)\n"
        "before, count.value = count.value, 0\n"
        "found = heap_walk.go_on(walk, 10_000_000)\n"
        "met = [type(obj) for obj in found[0] if type(obj) is Wanted]\n"
        "del found\n"
        "assert count.value == 0, count.value\n"
        "count.value = before\n"
        "assert met == []\n"
        "assert type(kept) is Wanted\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


def test_markers_cannot_be_made_by_the_program() -> None:
    stretches()
    names = {type(obj).__name__: type(obj) for obj in gc.get_objects()}
    with pytest.raises(TypeError, match="cannot create"):
        names["Marker"]()


def test_what_was_described_is_let_go_before_the_walk_goes_on() -> None:
    """It would be met: what a view is based on may have no other holder that is searched."""
    numpy = pytest.importorskip("numpy")
    kept = [[numpy.zeros(50)[::2]] for _ in range(50_000)]
    described = []

    class Rows(ArraySearch):
        rows: ClassVar[list[Any]] = []

        def take_described(self, rows: list[Any]) -> None:
            assert self.rows == []
            described.append(len(rows))
            Rows.rows = rows

    walk = TrackedObjects(lambda kind: What.COUNT, Allowance(), Rows(LiveObjects()))
    for _ in walk:
        pass
    assert sum(described) > 0
    del kept


HOST = """
#include <Python.h>
int main(void) {
    for (int i = 0; i < 3; i++) {
        Py_Initialize();
        if (PyRun_SimpleString(
                "import gc\\n"
                "from ramledger.interpreter.tracked_objects import TrackedObjects, What\\n"
                "from ramledger.interpreter.cpu_allowance import Allowance\\n"
                "kept = [[i] for i in range(100_000)]\\n"
                "for _ in range(3):\\n"
                "    walk = TrackedObjects(lambda kind: What.COUNT, Allowance())\\n"
                "    list(walk)\\n"
                "    counted = sum(count for _, count in walk.counts)\\n"
                "    assert abs(counted - len(gc.get_objects())) < 500, counted\\n") < 0) {
            return 1;
        }
        Py_FinalizeEx();
    }
    return 0;
}
"""


def test_in_a_program_that_starts_python_again(tmp_path: Path) -> None:
    """Markers that stood in the lists of one runtime are not looked for in the next."""
    library = Path(sysconfig.get_config_var("LIBDIR") or "", f"libpython{VERSION}.so")
    include = sysconfig.get_path("include")
    if shutil.which("cc") is None or not library.exists() or not Path(include, "Python.h").exists():
        pytest.skip("there is no C compiler, or no library to embed Python")
    (tmp_path / "host.c").write_text(HOST)
    options = [f"-I{include}", str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run(["cc", "-o", "host", "host.c", *options], cwd=tmp_path, check=True)
    env = {
        **os.environ,
        "PYTHONHOME": sys.base_prefix,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run([tmp_path / "host"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
