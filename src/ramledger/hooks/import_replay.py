"""Repeats the imports of another process in this one, made for it, and says what each adds.

Runs in a process that `attach/calibration.py` starts, never in a user's.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from ramledger.hooks.import_costs import ImportTracker, start_tracking
from ramledger.interpreter.loaded_modules import text_of
from ramledger.measure.allocators import malloc, pymalloc

_NICE = 10
_PR_SET_PDEATHSIG = 1
_STANDARD_LIBRARY = ""  # the package that its modules are booked to, where nothing else loads them

Costs = dict[str, list[int]]  # by package: native, Python


def main() -> None:
    """Read names from standard input, import them, write their costs to standard output."""
    reply = os.dup(1)
    os.set_inheritable(reply, False)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # what libraries print while they are imported is not our reply
    request = json.load(sys.stdin)
    _step_back(request["most_bytes"])
    sys.path.extend(site for site in request["sites"] if site not in sys.path)
    document = replay(request["modules"], start_tracking())
    with open(reply, "w", encoding="ascii") as file:
        json.dump(document, file)
        file.flush()
        os._exit(0)  # nothing that the libraries left for the end is of use


def replay(modules: list[str], tracker: ImportTracker) -> dict[str, Any]:
    """Import these modules; a step is a name that was not loaded by one before.

    Installed packages first: what they need of the standard library is a part of their cost.
    """
    in_order = sorted(modules, key=_is_standard)
    steps = [step for name in in_order if (step := _step(name, tracker)) is not None]
    versions = {
        package: text_of(sys.modules.get(package), "__version__") for package in tracker.costs
    }
    return {
        "steps": steps,
        "startup": [tracker.started_native_bytes, tracker.started_python_bytes],
        "tool": [tracker.tool_native_bytes, tracker.tool_python_bytes],
        "versions": versions,
    }


def _step(name: str, tracker: ImportTracker) -> dict[str, Any] | None:
    if name in sys.modules:
        return None
    before = {package: _pair(tracker, package) for package in tracker.costs}
    known = set(sys.modules)
    in_use = _in_use()
    with suppress(BaseException):  # what the other process has imported may not import twice
        import_module(name)
    costs: Costs = {}
    for package in tracker.costs:
        old, new = before.get(package, [0, 0]), _pair(tracker, package)
        if new != old:
            costs[package] = [new[0] - old[0], new[1] - old[1]]
    if _is_standard(name):
        now = _in_use()
        booked = [sum(pair[side] for pair in costs.values()) for side in (0, 1)]
        costs[_STANDARD_LIBRARY] = [now[n] - in_use[n] - booked[n] for n in (0, 1)]
    return {"name": name, "loaded": sorted(set(sys.modules) - known), "costs": costs}


def _is_standard(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names


def _pair(tracker: ImportTracker, package: str) -> list[int]:
    cost = tracker.costs[package]
    return [cost.native_bytes, cost.python_bytes]


def _in_use() -> list[int]:
    return [malloc.in_use_bytes() or 0, pymalloc.used_bytes() or 0]


def _step_back(most_bytes: int) -> None:
    """Work after everybody else, end with the parent, and never make memory short for others."""
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
