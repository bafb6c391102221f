"""`workers`: the fork server imports what the program has, and workers share those pages.

A worker that imports torch by itself has 151 MiB of its own, one that shares them 6 to 7.
"""

import sys
import types
from typing import Any

from ramledger.hooks.import_costs import on_import
from ramledger.remedies.method_wrapping import Method, wrap_method
from ramledger.remedies.reporting import Report

_MODULE = "multiprocessing.forkserver"
# what workers of a training load, in the order in which they need each other; nothing that starts
# threads or opens devices when it is imported
_SHARED = ("numpy", "gymnasium", "torch", "stable_baselines3")
_SAVED_BYTES = 144 << 20  # of a worker with torch, measured


def install(_: str, report: Report) -> None:
    """Before the fork server starts, it is told what to import."""
    on_import(_MODULE, lambda module: _preload(module, report))


def _preload(module: types.ModuleType, report: Report) -> None:
    def around(start: Method) -> Method:
        def ensure_running(self: Any) -> Any:
            _tell(self, report)
            return start(self)

        return ensure_running

    if not wrap_method(module, "ForkServer", "ensure_running", around):
        report.left("the fork server of this Python is not known")


def _tell(server: Any, report: Report) -> None:
    """Add what this process has imported, unless the server runs already."""
    if getattr(server, "_forkserver_pid", None) is not None:
        return
    names = [name for name in _SHARED if name in sys.modules]
    present = list(getattr(server, "_preload_modules", ()))
    wanted = [name for name in names if name not in present]
    if not wanted or _has_cuda():
        return
    server._preload_modules = [*present, *wanted]
    saves = _SAVED_BYTES if "torch" in wanted else 0
    report.applied(f"the fork server imports {', '.join(wanted)}: workers share them", saves)


def _has_cuda() -> bool:
    """A process that has opened a device must not be forked."""
    cuda = sys.modules.get("torch.cuda")
    return bool(cuda is not None and cuda.is_initialized())
