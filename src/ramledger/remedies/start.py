"""In each Python process of `run --apply`: hooks that put remedies in force when they can be.

A remedy that cannot be applied leaves the program as it is and says why.
"""

import os
from collections.abc import Callable
from contextlib import suppress

from ramledger.remedies import (
    malloc_trim,
    sb3_replay,
    sb3_rollout,
    worker_imports,
    worker_threads,
)
from ramledger.remedies.catalog import asked_of
from ramledger.remedies.reporting import Report, not_applied

_INSTALL: dict[str, Callable[[str, Report], None]] = {
    "replay": sb3_replay.install,
    "rollout": sb3_rollout.install,
    "workers": worker_imports.install,
    "threads": worker_threads.install,
    "malloc": malloc_trim.install,
}


def start_remedies() -> None:
    """Install what the environment asks for."""
    for name, option in asked_of(os.environ).items():
        report = Report(name)
        try:
            _INSTALL[name](option, report)
        except Exception as error:  # the training goes on without it
            with suppress(Exception):
                not_applied(report, error)
