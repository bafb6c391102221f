"""The markers in a pytest of its own: what leaks fails with the finding, what does not passes."""

import subprocess
import sys
from pathlib import Path

LEAKS = """
import gc
import numpy as np
import pytest

KEPT = []
TABLE = {}

class Env:
    registry = []
    def __init__(self):
        self.frame = np.ones(40_000)
        Env.registry.append(self)

@pytest.mark.no_leak(generations=8)
def test_a_list_that_grows():
    KEPT.append(np.ones(50_000))

@pytest.mark.no_leak
def test_objects_that_stay():
    Env()

@pytest.mark.no_leak(least="16 KiB")
def test_small_objects_in_a_dict():
    for i in range(400):
        TABLE[len(TABLE)] = str(i) * 20
"""

HEALTHY = """
import numpy as np
import pytest

CACHE = {}
BUFFER = np.zeros(2_000_000)

@pytest.fixture
def rows():
    return 30_000

@pytest.mark.no_leak(generations=8)
def test_what_is_freed(rows):
    np.ones(rows).sum()

@pytest.mark.no_leak
def test_a_cache_that_is_warm_soon():
    CACHE.setdefault(len(CACHE) % 3, np.ones(100_000))

@pytest.mark.no_leak
def test_a_cache_that_ends():
    if len(CACHE) < 11:
        CACHE[len(CACHE)] = np.ones(100_000)

@pytest.mark.no_leak
def test_garbage_in_cycles():
    a = [np.ones(50_000)]
    a.append(a)

@pytest.mark.no_leak
def test_a_buffer_that_fills():
    at = int(BUFFER[0]) * 20_000
    BUFFER[at : at + 20_000] = 1
    BUFFER[0] += 1
"""

BUDGETS = """
import numpy as np
import pytest

@pytest.mark.ramledger_budget("40 MiB")
def test_above():
    block = np.ones(10_000_000)
    import time; time.sleep(1.0)

@pytest.mark.ramledger_budget("40 MiB")
def test_a_peak_that_is_over_at_once():
    np.ones(10_000_000)

@pytest.mark.ramledger_budget("200 MiB")
def test_below():
    np.ones(10_000_000)
"""


def run_pytest(folder: Path, text: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-W",
         "error", "--strict-markers", "test_it.py"],
        cwd=folder, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_what_leaks_fails_with_the_finding(tmp_path: Path) -> None:
    code, said = run_pytest(tmp_path, LEAKS)
    assert code == 1, said
    assert "3 failed" in said, said
    assert "leak: test_it.py:17 adds to test_it.py:KEPT, which is never cleared: " in said
    assert "stored at test_it.py:17 in test_a_list_that_grows: KEPT.append(" in said
    assert "Env" in said
    assert "test_it.py:TABLE" in said


def test_what_does_not_leak_passes(tmp_path: Path) -> None:
    code, said = run_pytest(tmp_path, HEALTHY)
    assert code == 0, said


def test_budgets(tmp_path: Path) -> None:
    code, said = run_pytest(tmp_path, BUDGETS)
    assert code == 1, said
    assert "2 failed, 1 passed" in said, said
    assert "the budget is 40.0 MiB" in said
    assert "variables/test_above():block" in said


BAD_MARKS = {
    "no_leak(generations=2)": "at least 6 generations",
    "no_leak(often=3)": "does not know often",
    "no_leak(warm_up=-1)": "cannot warm up with -1 passes",
    "no_leak(least='lots')": "no_leak: not a size: 'lots'",
    "ramledger_budget()": "takes one size",
    "ramledger_budget(None)": "ramledger_budget: not a size: None",
}


def test_bad_markers_say_so(tmp_path: Path) -> None:
    tests = [f"@pytest.mark.{m}\ndef test_{i}(): pass" for i, m in enumerate(BAD_MARKS)]
    code, said = run_pytest(tmp_path, "\n".join(["import pytest", *tests]))
    assert code == 1
    assert f"{len(BAD_MARKS)} failed" in said
    assert [text for text in BAD_MARKS.values() if text not in said] == []
    assert "Traceback" not in said
    assert "another exception" not in said


OTHER_KINDS = """
import logging
import unittest
import numpy as np
import pytest

KEPT = []

@pytest.mark.no_leak
def test_what_pytest_keeps_of_the_log(caplog):
    for row in range(300):
        logging.warning("reward %s", list(range(row, row + 20)))
    assert len(caplog.records) == 300

@pytest.mark.ramledger_budget(size="200 MiB")
def test_a_budget_by_its_name():
    pass

@pytest.mark.no_leak
async def test_coroutine():
    KEPT.append(np.ones(50_000))

class TestOld(unittest.TestCase):
    @pytest.mark.no_leak
    def test_method(self):
        KEPT.append(np.ones(50_000))
"""
RUNS_COROUTINES = """
import asyncio, inspect
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        asyncio.run(pyfuncitem.obj())
        return True
"""


def test_logs_coroutines_and_methods_of_unittest(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(RUNS_COROUTINES)
    code, said = run_pytest(tmp_path, OTHER_KINDS)
    assert code == 1
    assert "2 failed, 2 passed" in said, said
    assert "adds to test_it.py:KEPT" in said  # of every pass of the coroutine
    assert "no_leak is not for unittest.TestCase" in said
