"""The environment in which every Python process starts its agent by itself."""

import json
import os
from collections.abc import Mapping
from typing import Any

from ramledger.agent.observer_settings import ObserverSettings

RUN_VARIABLE = "RAMLEDGER_RUN"

_STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")


def environment_with_agent(
    environment: Mapping[str, str], settings: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """`environment` with our sitecustomize in front; the user's own still runs after it.

    `settings` (see ObserverSettings) make the processes report to a recorder.
    """
    paths = [_STARTUP]
    if environment.get("PYTHONPATH"):
        paths.append(environment["PYTHONPATH"])
    changed = {**environment, "PYTHONPATH": os.pathsep.join(paths)}
    changed.pop(RUN_VARIABLE, None)
    if settings is not None:
        changed[RUN_VARIABLE] = json.dumps(settings)
    return changed


def run_settings() -> ObserverSettings | None:
    """What the recorder of this run asks for, if this process is under one."""
    text = os.environ.get(RUN_VARIABLE)
    if not text:
        return None
    try:
        return ObserverSettings.from_dict(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        return None
