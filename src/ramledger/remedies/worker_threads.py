"""`threads`: worker processes of multiprocessing compute with one thread each.

Two workers with two threads each on two cores are slower than with one, and every thread has its
own arena. Sums of floats may differ in their last bit: not exact.
"""

import os
import sys
import types
from typing import Any

from ramledger.hooks.import_costs import on_import
from ramledger.remedies.method_wrapping import Method, wrap_method
from ramledger.remedies.reporting import Report

_MODULE = "multiprocessing.process"
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def install(_: str, report: Report) -> None:
    """Workers are started with the variables; this process keeps its own threads."""
    on_import(_MODULE, lambda module: _limit(module, report))
    if getattr(sys.modules.get(_MODULE), "_children", None):
        report.left("workers that run already keep their threads")


def _limit(module: types.ModuleType, report: Report) -> None:
    def around(start: Method) -> Method:
        def start_limited(self: Any) -> Any:
            changed = [name for name in _VARIABLES if name not in os.environ]
            os.environ.update(dict.fromkeys(changed, "1"))
            try:
                return start(self)
            finally:
                for name in changed:
                    os.environ.pop(name, None)
                if changed:
                    report.applied("workers compute with one thread each")

        return start_limited

    if not wrap_method(module, "BaseProcess", "start", around):
        report.left("the processes of this Python are not known")
