"""The marker `no_leak` beside pytest-memray's `limit_leaks`: the same tests, who fails which.

Prints the table of docs/pytest.md; both are to fail a test that leaves 64 KiB and more behind.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

TESTS = """
import ctypes, functools, gc, json
import numpy as np
import pytest

KEPT, CACHE, TABLE = [], {}, []
ENVS = []
# malloc as a library calls it; through ctypes itself memray would not see it
ALLOCATE = ctypes.pythonapi.PyMem_RawMalloc
ALLOCATE.restype, ALLOCATE.argtypes = ctypes.c_void_p, [ctypes.c_size_t]

class Env:
    def __init__(self):
        self.frames = np.ones(50_000)

def test_leak_list_of_arrays():
    KEPT.append(np.ones(50_000))

def test_leak_objects_pinned_by_a_registry():
    ENVS.append(Env())

def test_leak_native_memory():
    block = ALLOCATE(400_000)
    ctypes.memset(block, 1, 400_000)

def test_leak_many_small_objects():
    KEPT.extend({"reward": float(i), "step": str(i)} for i in range(2_000))

@functools.cache
def features(key):
    return np.ones(50_000)

def test_leak_cache_with_ever_new_keys():
    features(object())

def test_leak_reference_cycle_with_a_finalizer():
    class Agent:
        def __del__(self): KEPT.append(self)
    agent = Agent()
    agent.replay = np.ones(50_000)

def test_healthy_cache_filled_once():
    CACHE.setdefault("table", np.ones(50_000))

def test_healthy_lazily_built_table():
    if not TABLE:
        TABLE.extend(np.ones(50_000) for _ in range(3))

def test_healthy_import_within_the_test():
    import sqlite3, xml.etree.ElementTree, email.mime.multipart, decimal
    decimal.Decimal(1)

def test_healthy_large_temporary():
    np.ones(5_000_000).sum()

def test_healthy_ring_that_fills_up():
    if len(TABLE) < 4:
        TABLE.append(np.ones(50_000))

def test_healthy_reference_cycle():
    class Agent: pass
    agent = Agent()
    agent.me, agent.replay = agent, np.ones(50_000)
"""
TOOLS = {
    "no_leak": ("@pytest.mark.no_leak", []),
    "limit_leaks": ("@pytest.mark.limit_leaks('64 KB')", ["--memray"]),
}


def failed_by(tool: str) -> set[str]:
    """The tests that a tool fails, from pytest's own report: summaries word it differently."""
    mark, options = TOOLS[tool]
    with tempfile.TemporaryDirectory() as folder:
        code = re.sub(r"^def test_", f"{mark}\ndef test_", TESTS, flags=re.MULTILINE)
        Path(folder, "test_them.py").write_text(code)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options,
             "--junitxml=report.xml", "test_them.py"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stdout[-1500:] + done.stderr[-500:])
        cases = ElementTree.parse(Path(folder, "report.xml")).iter("testcase")
        failed = {case.get("name", "") for case in cases if case.find("failure") is not None}
    if "test_leak_list_of_arrays" not in failed:
        raise RuntimeError(f"{tool} does not act: it passes the plainest leak")
    return failed


def main() -> int:
    names = re.findall(r"^def (test_\w+)", TESTS, re.MULTILINE)
    failed = {tool: failed_by(tool) for tool in TOOLS}
    print("| test | " + " | ".join(f"`{tool}`" for tool in TOOLS) + " |")
    print("|---|---|---|")
    right = dict.fromkeys(TOOLS, 0)
    for name in names:
        leaks = name.startswith("test_leak_")
        cells = []
        for tool in TOOLS:
            is_right = (name in failed[tool]) == leaks
            right[tool] += is_right
            word = "fails it" if name in failed[tool] else "passes it"
            cells.append(word if is_right else f"**{word}**")
        kind, _, rest = name.removeprefix("test_").partition("_")
        print(f"| {kind}: {rest.replace('_', ' ')} | {' | '.join(cells)} |")
    print("| right | " + " | ".join(f"{right[tool]} of {len(names)}" for tool in TOOLS) + " |")
    return 0 if right["no_leak"] == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
