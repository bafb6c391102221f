"""Imported by the fork server before the libraries that we add to it.

A worker that imports numpy by itself draws its own random numbers; one that shares numpy would draw
those of every other worker. So each gets a new seed, unless the program's own imports came first.
"""

import os
import sys
from contextlib import suppress

_SERVER_PID = os.getpid()
_WAS_LOADED = "numpy.random" in sys.modules


def _reseed() -> None:
    random = sys.modules.get("numpy.random")
    if random is not None and not _WAS_LOADED and os.getppid() == _SERVER_PID:
        with suppress(Exception):
            random.seed()


os.register_at_fork(after_in_child=_reseed)
