"""Hooks that put remedies in force when they can be: of `run --apply`, or of `ramledger.apply()`.

A remedy that cannot be applied leaves the program as it is and says why.
"""

import os
from collections.abc import Callable, Mapping
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


_in_force: dict[str, str] = {}  # in this process, with the option of each


def start_remedies() -> None:
    """Install what the environment asks for."""
    put_in_force(asked_of(os.environ))


def put_in_force(asked: Mapping[str, str]) -> list[str]:
    """Install these, each once in a process; why something stays as it is, a sentence each."""
    found: list[str] = []
    for name, option in asked.items():
        if name in _in_force:
            if option != _in_force[name]:
                found.append(f"{name}: in force already, with another option")
            continue
        _in_force[name] = option
        report = Report(name)
        report.asked()
        try:
            _INSTALL[name](option, report)
        except Exception as error:  # the training goes on without it
            with suppress(Exception):
                not_applied(report, error)
        found += [f"{name}: {text}" for text in report.left_as_they_are]
    return found
