"""What the imports of a process cost: measured in a second process of the same interpreter.

Once for each interpreter and set of installed libraries, outside of the user's process; then kept
in the user's cache. A process that cannot be repeated safely is not, and the reason is told.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ramledger
from ramledger.attach.calibration_cache import keep_document, kept_document
from ramledger.attach.trusted_files import why_not_trusted
from ramledger.errors import MeasureError
from ramledger.interpreter.loaded_packages import LoadedPackages
from ramledger.measure import proc
from ramledger.measure.limits import limits
from ramledger.units import format_bytes

TIMEOUT_SECONDS = 120.0
ENOUGH_BYTES = 1 << 30  # more than torch, TensorFlow and JAX add together
_LARGEST_REPLY_BYTES = 16 << 20
_MOST_BYTES = 1 << 44

# the package is loaded by its place: the interpreter may have none, or another version of ours
_CHILD = """
import sys, _frozen_importlib, _frozen_importlib_external
def load(package):
    spec = _frozen_importlib_external.spec_from_file_location(
        'ramledger', package + '/__init__.py', submodule_search_locations=[package])
    module = sys.modules['ramledger'] = _frozen_importlib.module_from_spec(spec)
    spec.loader.exec_module(module)
load({package!a})
from ramledger.hooks.import_replay import main
main()
"""


@dataclass(frozen=True, slots=True)
class ImportTable:
    """What repeating imports added: by name imported, by package, as (native, Python) bytes."""

    steps: tuple[tuple[str, frozenset[str], Mapping[str, tuple[int, int]]], ...]
    startup: tuple[int, int]
    tool: tuple[int, int]
    versions: Mapping[str, str]

    @classmethod
    def from_dict(cls, data: Any) -> "ImportTable":
        """ValueError for anything but a table: a file of the cache may be anything."""
        try:
            return cls(
                steps=tuple(
                    (
                        str(step["name"]),
                        frozenset(map(str, step["loaded"])),
                        {str(name): _pair(pair) for name, pair in step["costs"].items()},
                    )
                    for step in data["steps"]
                ),
                startup=_pair(data["startup"]),
                tool=_pair(data["tool"]),
                versions={str(name): str(text) for name, text in data["versions"].items()},
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a table of imports: {error}") from error

    def covers(self, loaded: LoadedPackages) -> bool:
        """Whether all that the process has imported was tried."""
        tried = {name for name, *_ in self.steps}.union(*(step[1] for step in self.steps))
        return tried.issuperset(
            name for name in loaded.modules if name.partition(".")[0] in loaded.versions
        )

    def costs_of(self, loaded: LoadedPackages) -> dict[str, tuple[int, int]]:
        """(native, Python) bytes by package, "" for the standard library and the interpreter.

        A package that has another version on disk than in the process is left out.
        """
        modules = set(loaded.modules)
        found: dict[str, tuple[int, int]] = {"": self.startup}
        for name, _, costs in self.steps:
            if name not in modules:
                continue
            for package, (native, python) in costs.items():
                if package and loaded.versions.get(package) != self.versions.get(package):
                    continue
                so_far = found.get(package, (0, 0))
                found[package] = (so_far[0] + native, so_far[1] + python)
        return {package: (max(0, n), max(0, p)) for package, (n, p) in found.items()}


def calibrate(pid: int, loaded: LoadedPackages, most_bytes: int) -> ImportTable:
    """The table for what a process has imported; MeasureError says why there is none.

    `most_bytes`: what the process has that imports may have added, and so the most it can need.
    """
    why_not = _why_not_same(pid, loaded) or why_not_trusted(
        proc.read_status(pid), [loaded.executable, *loaded.sites, *_packages(loaded)]
    )
    if why_not:
        raise MeasureError(why_not, pid=pid)
    with suppress(ValueError):
        table = ImportTable.from_dict(kept_document(loaded))
        if table.covers(loaded):
            return table
    document = _measured(loaded, _room(min(most_bytes, ENOUGH_BYTES)))
    try:
        table = ImportTable.from_dict(document)
    except ValueError as error:
        raise MeasureError(f"the repeated imports were not measured: {error}") from error
    keep_document(loaded, document)
    return table


def _why_not_same(pid: int, loaded: LoadedPackages) -> str:
    """Why the interpreter that the process names cannot be started again; "" if it can."""
    if not os.path.isabs(loaded.executable):
        return "the process does not say which interpreter it runs"
    try:
        if os.path.samefile(loaded.executable, f"/proc/{pid}/exe"):
            return ""
    except OSError:
        pass
    return f"{loaded.executable} is no longer the interpreter that the process runs"


def _packages(loaded: LoadedPackages) -> list[str]:
    places = [f"{site}/{package}" for site in loaded.sites for package in loaded.versions]
    return [place for place in places if os.path.lexists(place)]


def _room(needed_bytes: int) -> int:
    """What the second process may take: half of what is left to all, if that is enough."""
    found = [
        (limit.headroom_bytes, limit.source)
        for limit in limits(os.getpid())
        if limit.headroom_bytes is not None
    ]
    left_bytes, source = min(found, default=(2 * ENOUGH_BYTES, ""))
    if left_bytes < 2 * needed_bytes:
        raise MeasureError(
            f"repeating its imports may take {format_bytes(needed_bytes)}, "
            f"and only {format_bytes(max(0, left_bytes))} are left ({source})"
        )
    return left_bytes // 2


def _measured(loaded: LoadedPackages, most_bytes: int) -> Any:
    package = os.path.dirname(os.path.abspath(ramledger.__file__))
    request = json.dumps(
        {"sites": loaded.sites, "modules": loaded.modules, "most_bytes": most_bytes}
    ).encode()
    # -I: neither the user's folders nor variables; a session of its own: Ctrl-C is for us alone
    command = [loaded.executable, "-I", "-c", _CHILD.replace("{package!a}", ascii(package))]
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise MeasureError(f"{loaded.executable} cannot be started: {error}") from error
    try:
        reply, _ = child.communicate(request, timeout=TIMEOUT_SECONDS)
        if len(reply) <= _LARGEST_REPLY_BYTES:
            return json.loads(reply)
        raise ValueError("a reply that is too long")
    except subprocess.TimeoutExpired as error:
        raise MeasureError(
            f"its imports could not be repeated in {TIMEOUT_SECONDS:.0f} seconds"
        ) from error
    except ValueError as error:
        raise MeasureError(
            f"its imports could not be repeated: exit code {child.poll()}"
        ) from error
    finally:
        _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the process and what the imports may have started, if it has not ended by itself."""
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.communicate()


def _pair(value: Any) -> tuple[int, int]:
    native, python = value
    if not all(type(size) is int and abs(size) < _MOST_BYTES for size in (native, python)):
        raise ValueError(f"not sizes in bytes: {value!r}")
    return native, python
