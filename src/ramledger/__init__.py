"""The public names, each loaded when first used: `import ramledger` itself costs next to nothing.

A process that only wants `ramledger.record()` must not pay for the rest (PEP 562).
"""

import sys
from typing import TYPE_CHECKING, Any

# what was there before us: the tool's own cost is an account in its own statements
_BLOCKS_BEFORE = sys.getallocatedblocks()

if TYPE_CHECKING:
    from ramledger import replay
    from ramledger.api import record
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
    from ramledger.ledger import Entry, Statement
    from ramledger.plan.budget import Budget
    from ramledger.plan.make_plan import plan
    from ramledger.plan.rehearsals import rehearse
    from ramledger.recorder.tree_sampler import headroom

    __version__: str

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
    "headroom",
    "plan",
    "record",
    "rehearse",
    "replay",
]

_HOMES = {
    "Budget": "ramledger.plan.budget",
    "Entry": "ramledger.ledger",
    "Statement": "ramledger.ledger",
    "headroom": "ramledger.recorder.tree_sampler",
    "record": "ramledger.api",
    "rehearse": "ramledger.plan.rehearsals",
}

# `ramledger.plan` is a function as well (see there); `replay` loads numpy, nothing before does
_PACKAGES = ("plan", "replay")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("ramledger")
    elif name in _PACKAGES:
        from importlib import import_module

        value = import_module(f"ramledger.{name}")
    else:
        from importlib import import_module

        value = getattr(import_module(_HOMES.get(name, "ramledger.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
