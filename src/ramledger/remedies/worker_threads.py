"""`threads`: worker processes of multiprocessing compute with one thread each.

Two workers with two threads each on two cores are slower than with one, and every thread has its
own arena. Sums of floats may differ in their last bit: not exact.
"""

import os

from ramledger.hooks.import_costs import on_import
from ramledger.remedies.reporting import Report

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def install(_: str, report: Report) -> None:
    """Workers inherit the variables; this process has read its own already, or does so now."""
    on_import("multiprocessing.process", lambda _: _limit(report))


def _limit(report: Report) -> None:
    import multiprocessing.process as process

    if process.parent_process() is None:
        return
    changed = [name for name in _VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(changed, "1"))
    if changed:
        report.applied("a worker computes with one thread")
