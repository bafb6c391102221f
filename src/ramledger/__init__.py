"""The public names, each loaded when first used: `import ramledger` itself costs next to nothing.

A process that only wants `ramledger.record()` must not pay for the rest (PEP 562).
"""

import sys
from typing import TYPE_CHECKING, Any

# what was there before us: the tool's own cost is an account in its own statements
_BLOCKS_BEFORE = sys.getallocatedblocks()

if TYPE_CHECKING:
    from ramledger import replay
    from ramledger.api import apply, record
    from ramledger.diagnose.recording_verdict import diagnose
    from ramledger.errors import (
        CheckpointError,
        ConfigError,
        MeasureError,
        NotPermittedError,
        OverBudgetError,
        ProcessGoneError,
        RamledgerError,
        RecordingError,
    )
    from ramledger.integrations.ipython import load_ipython_extension as load_ipython_extension
    from ramledger.integrations.ipython import unload_ipython_extension as unload_ipython_extension
    from ramledger.ledger import Entry, Statement
    from ramledger.plan.budget import Budget
    from ramledger.plan.make_plan import plan
    from ramledger.plan.rehearsals import rehearse
    from ramledger.recorder.tree_sampler import headroom
    from ramledger.report.html.page_file import report

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "CheckpointError",
    "ConfigError",
    "Entry",
    "MeasureError",
    "NotPermittedError",
    "OverBudgetError",
    "ProcessGoneError",
    "RamledgerError",
    "RecordingError",
    "Statement",
    "__version__",
    "apply",
    "diagnose",
    "headroom",
    "plan",
    "record",
    "rehearse",
    "replay",
    "report",
]

_HOMES = {
    "Budget": "ramledger.plan.budget",
    "Entry": "ramledger.ledger",
    "Statement": "ramledger.ledger",
    "apply": "ramledger.api",
    "headroom": "ramledger.recorder.tree_sampler",
    # `%load_ext ramledger` looks for these
    "load_ipython_extension": "ramledger.integrations.ipython",
    "unload_ipython_extension": "ramledger.integrations.ipython",
    "record": "ramledger.api",
    "rehearse": "ramledger.plan.rehearsals",
}

# all but `replay` are functions as well (see there); what they need is loaded when they are called
_PACKAGES = ("diagnose", "plan", "replay", "report")


def __getattr__(name: str) -> Any:
    if name not in __all__ and name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in _PACKAGES:
        value: Any = import_module(f"ramledger.{name}")
    else:
        value = getattr(import_module(_HOMES.get(name, "ramledger.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
