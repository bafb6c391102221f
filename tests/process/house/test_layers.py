"""Imports go down only, and the live half stays light: import-linter plus fresh processes."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.support.places import ROOT

PACKAGE = ROOT / "src" / "ramledger"
DATA = (
    "recording", "event_codec", "event_encoding", "event_version_1",
    "event_statement", "events", "event_parts", "ledger", "ledger_text", "user_files", "units",
    "errors", "descriptors", "fork_lock", "html_tables", "time_share", "type_ranks",
)  # fmt: skip
LIVE_HALF = (
    "process_session", "api", "recorder", "attach", "agent", "statement", "objects", "hooks",
    "phases", "interpreter", "measure", *DATA,
)  # fmt: skip
HEAVY = {"numpy", "torch", "rich", "cyclopts", "msgspec", "plotly"}
RECORDER_LIMIT_KIB = 24 * 1024

PROBE = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
with open("/proc/self/status") as status:
    rss_kib = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
print(json.dumps({"modules": sorted(sys.modules), "rss_kib": rss_kib}))
"""


ONE_BY_ONE = """
import importlib, json, os, sys
for name in json.loads(sys.argv[1]):
    if os.fork() == 0:
        importlib.import_module(name)
        print(json.dumps([name, sorted(sys.modules)]), flush=True)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"{name} cannot be imported by itself")
"""


def in_fresh_process(*modules: str) -> dict[str, Any]:
    """Import `modules` in an isolated interpreter; what it then holds, by the kernel's word."""
    command = [sys.executable, "-I", "-c", PROBE, json.dumps(modules)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def live_half() -> list[str]:
    """Every module of the live half, from the file tree; start-up scripts are in no package."""
    files = (path for path in PACKAGE.rglob("*.py") if path.with_name("__init__.py").exists())
    names = (".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in files)
    modules = sorted(name.removesuffix(".__init__") for name in names)
    return [name for name in modules if name.partition(".")[2].split(".")[0] in LIVE_HALF]


def contracts() -> dict[str, dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {entry["id"]: entry for entry in settings["tool"]["importlinter"]["contracts"]}


def test_import_linter_keeps_every_contract() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_light_contract_covers_every_part_of_the_live_half() -> None:
    contract = contracts()["the-recorder-stays-light"]
    parts = {".".join(name.split(".")[:2]) for name in live_half()}
    assert parts == set(contract["source_modules"])
    assert set(contract["forbidden_modules"]) == HEAVY


def test_no_module_of_the_live_half_imports_anything_heavy() -> None:
    """Each one by itself, in a fork of an interpreter that has loaded nothing of ours."""
    command = [sys.executable, "-I", "-c", ONE_BY_ONE, json.dumps(live_half())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    loaded = dict(json.loads(line) for line in done.stdout.splitlines())
    assert set(loaded) == set(live_half())
    assert not {name: found for name in loaded if (found := HEAVY.intersection(loaded[name]))}


def test_the_whole_live_half_stays_under_24_mib() -> None:
    found = in_fresh_process(*live_half())
    assert not HEAVY.intersection(found["modules"])
    assert found["rss_kib"] < RECORDER_LIMIT_KIB


def test_importing_the_package_alone_loads_none_of_it() -> None:
    found = in_fresh_process("ramledger")
    assert [name for name in found["modules"] if name.startswith("ramledger.")] == []
    # `typing` is all that it needs; other start-up costs are in both processes
    assert found["rss_kib"] - in_fresh_process("typing")["rss_kib"] < 512
