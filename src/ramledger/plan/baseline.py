"""What imports cost: the numbers that we ship, or this machine's own, measured by `--calibrate`.

Those that we ship: Linux 6.18, glibc 2.36, CPython 3.11, torch 2.13 (CPU), stable-baselines3 2.9.2.
"""

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ramledger.errors import ConfigError, MeasureError
from ramledger.plan.formulas.library_pages import ahead_bytes
from ramledger.plan.formulas.process_costs import LIBRARY_MB, MB
from ramledger.plan.frameworks.all_frameworks import FRAMEWORKS
from ramledger.user_files import read_text, write_whole

_SECONDS = 300
_MOST_BYTES = 1 << 20
_PLACE_HINT = "set XDG_CACHE_HOME to a folder of yours"
_PROGRAM = """
import importlib, json, sys
def kib(name, file="status"):
    with open(f"/proc/self/{file}") as status:
        return next(int(l.split()[1]) for l in status if l.startswith(name))
found = {}
for name in ("numpy", "torch", *sys.argv[1:]):
    try:
        importlib.import_module(name)
    except ImportError:
        continue
    found[name] = kib("VmRSS:") * 1024
child = (kib("Private_Dirty:", "smaps_rollup") + kib("Private_Clean:", "smaps_rollup")) * 1024
if "torch" in found:
    import torch
    before = kib("VmRSS:")
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    found["optimizer"] = (kib("VmRSS:") - before) * 1024
print(json.dumps({"found": found, "child": child}))
"""
_PYTHON_MB, _NUMPY_MB, _TORCH_MB = 14.4, 14.0, 201.5
# the first torch.optim constructor imports torch._dynamo
_OPTIMIZER_MB = 76.3
# private pages of a child that imports torch again
_CHILD_MB = 150.0


@dataclass(frozen=True, slots=True)
class Baseline:
    """Import costs of one machine, in bytes."""

    runtime: dict[str, int]
    optimizer_bytes: int
    child_bytes: int
    source: str
    spread: float = 0.06

    def runtime_bytes(self, framework: str, library: str, has_torch: bool) -> int:
        """Imports of a framework whose networks are computed by another library than torch."""
        found = self.runtime[framework]
        if library == "torch":
            return found
        beside = 0 if has_torch else round(_TORCH_MB * MB)
        return found - beside + round(LIBRARY_MB[library] * MB)

    def measured(
        self,
        framework: str,
        runtime_bytes: int,
        optimizer_bytes: int | None = None,
        source: str = "this process as it is",
    ) -> "Baseline":
        """The same with what a process of that framework was measured to take."""
        return replace(
            self,
            runtime={**self.runtime, framework: runtime_bytes},
            optimizer_bytes=self.optimizer_bytes if optimizer_bytes is None else optimizer_bytes,
            source=source,
            spread=0.01,
        )


def shipped_baseline() -> Baseline:
    """The numbers that we ship."""
    shared = _PYTHON_MB + _NUMPY_MB + _TORCH_MB
    return Baseline(
        {name: round((shared + own.import_mb) * MB) for name, own in FRAMEWORKS.items()},
        round(_OPTIMIZER_MB * MB),
        round(_CHILD_MB * MB),
        "measured on another machine; --calibrate measures this one",
    )


def cache_path() -> Path:
    """Where the numbers are kept, for this interpreter."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    name = sys.executable.strip("/").replace("/", "-")
    return Path(root) / "ramledger" / f"baseline-{name[-120:]}.json"


def calibrate() -> tuple[Path, Baseline]:
    """Import each framework in a fresh process and store what that took."""
    shipped = shipped_baseline()
    runtime = dict(shipped.runtime)
    alone = _measured()
    if "torch" not in alone["found"]:
        raise ConfigError(
            "torch is not installed here, so there is nothing to measure",
            hint="run it with the interpreter that will train",
        )
    optimizer, child = alone["found"]["optimizer"], alone["child"]
    plain = alone["found"]["torch"]
    shift = plain - (shipped.runtime["sb3"] - round(FRAMEWORKS["sb3"].import_mb * MB))
    for name, framework in FRAMEWORKS.items():
        runtime[name] += shift
        module = framework.module
        found = _measured(module) if module else {"found": {}}
        if module in found["found"]:
            runtime[name] = found["found"][module]
            if name == "sb3":
                child = found["child"]
    # stored without the pages that this kernel maps ahead: every plan adds them as they are then
    ahead = ahead_bytes() or 0
    runtime = {name: size - ahead for name, size in runtime.items()}
    baseline = Baseline(runtime, optimizer, child, "measured on this machine", 0.02)
    path = cache_path()
    _keep(path, baseline)
    return path, baseline


def kept_baseline() -> Baseline | None:
    """What an earlier calibration found; None when there was none, or it cannot be read."""
    try:
        data = json.loads(read_text(cache_path(), _MOST_BYTES, ConfigError, ""))
        return Baseline(
            {str(name): int(size) for name, size in data["runtime"].items()},
            int(data["optimizer_bytes"]),
            int(data["child_bytes"]),
            "measured on this machine",
            0.02,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _measured(*modules: str) -> dict[str, Any]:
    # imported here: every plan imports this module, and few measure
    import subprocess

    command = [sys.executable, "-c", _PROGRAM, *modules]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise MeasureError(
            f"the measurement failed: {error}", hint="run `python -c 'import torch'` by itself"
        ) from None
    return found


def _keep(path: Path, baseline: Baseline) -> None:
    data = {
        "runtime": baseline.runtime,
        "optimizer_bytes": baseline.optimizer_bytes,
        "child_bytes": baseline.child_bytes,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", hint=_PLACE_HINT) from None
    write_whole(
        str(path), json.dumps(data).encode(), force=True, error=ConfigError, hint=_PLACE_HINT
    )
