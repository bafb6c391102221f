"""The public names, each loaded when first used: `import ramledger` itself costs next to nothing.

A process that only wants `ramledger.record()` must not pay for the rest (PEP 562).
"""

import sys
from typing import TYPE_CHECKING, Any

# what was there before us: the tool's own cost is an account in its own statements
_BLOCKS_BEFORE = sys.getallocatedblocks()

if TYPE_CHECKING:
    from ramledger import replay
    from ramledger.account.recorder import record
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

    __version__: str

__all__ = [
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
    "record",
    "replay",
]

_HOMES = {
    "Entry": "ramledger.ledger",
    "Statement": "ramledger.ledger",
    "record": "ramledger.account.recorder",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("ramledger")
    elif name == "replay":  # a package: numpy is loaded with it, and by nothing before
        from importlib import import_module

        value = import_module("ramledger.replay")
    else:
        from importlib import import_module

        value = getattr(import_module(_HOMES.get(name, "ramledger.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
