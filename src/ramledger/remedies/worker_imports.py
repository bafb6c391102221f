"""`workers`: the fork server imports what the program has, and workers share those pages.

A worker that imports torch by itself has 154 MiB of its own, one that shares them 6 to 7. A garbage
collection in it writes to all that it shares, and made that 47, so what is shared is frozen first.
"""

import gc
import os
import sys
import types
from typing import Any

from ramledger.hooks.import_costs import on_import
from ramledger.remedies.method_wrapping import Method, wrap_method
from ramledger.remedies.reporting import Report
from ramledger.units import format_bytes

_SERVERS, _PROCESSES = "multiprocessing.forkserver", "multiprocessing.process"
# what workers of a training load, in the order in which they need each other; nothing that starts
# threads or opens devices when it is imported
_SHARED = ("numpy", "gymnasium", "torch", "stable_baselines3")
_BEFORE_SHARED = "ramledger.remedies.fork_server_random"
_FORKS = ("fork", "forkserver")
_SAVED_BYTES = 144 << 20  # of a worker with torch, measured


def install(_: str, report: Report) -> None:
    """Before the fork server starts, it is told what to import."""
    on_import(_SERVERS, lambda module: _preload(module, report))
    on_import(_PROCESSES, lambda module: _freeze(module, report))
    running = getattr(sys.modules.get(_SERVERS), "_forkserver", None)
    if getattr(running, "_forkserver_pid", None) is not None:
        report.left(
            "the fork server runs already: ramledger.apply('workers') before the environments "
            "are made, or `ramledger run --apply workers`, comes before it"
        )


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
    server._preload_modules = [*present, _BEFORE_SHARED, *wanted]
    each = f", about {format_bytes(_SAVED_BYTES)} each" if "torch" in wanted else ""
    report.applied(f"the fork server imports {', '.join(wanted)}: workers share them{each}")


def _has_cuda() -> bool:
    """A process that has opened a device must not be forked."""
    cuda = sys.modules.get("torch.cuda")
    return bool(cuda is not None and cuda.is_initialized())


def _freeze(module: types.ModuleType, report: Report) -> None:
    """In each forked worker: its collector leaves alone what it shares.

    Freezing joins lists and writes to no object. It is done in the worker, not before the fork:
    nothing changes for the collector of the parent.
    """
    pid = os.getpid()

    def around_work(bootstrap: Method) -> Method:
        def _bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
            if os.getpid() != pid:  # forked: a spawned worker shares nothing
                gc.freeze()
            return bootstrap(self, *args, **kwargs)

        return _bootstrap

    def around_start(start: Method) -> Method:
        def start_told(self: Any) -> Any:
            started = start(self)
            # said by the parent: what a worker says may be lost when it ends
            if getattr(getattr(self, "_popen", None), "method", "") in _FORKS:
                report.applied("collections in forked workers leave alone what these share")
            return started

        return start_told

    if not wrap_method(module, "BaseProcess", "_bootstrap", around_work):
        report.left("the processes of this Python are not known")
    else:
        wrap_method(module, "BaseProcess", "start", around_start)
