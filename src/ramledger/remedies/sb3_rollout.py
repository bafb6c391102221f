"""`rollout`: rollouts of stable-baselines3 store each frame once, and are not copied for updates.

What holds the observations is exchanged when a buffer is reset, in subclasses, too; the rest of
the buffer is the library's own code.
"""

import types
from typing import Any

from ramledger.hooks.import_costs import on_import
from ramledger.remedies.method_wrapping import Method, wrap_method
from ramledger.remedies.reporting import Report
from ramledger.units import MIB, format_bytes

_MODULE = "stable_baselines3.common.buffers"
_CLASSES = ("RolloutBuffer", "DictRolloutBuffer")
_KNOWN = "_ramledger_stacks"  # by key: how many frames the images of a buffer have
_WORTH_BYTES = MIB


def install(_: str, report: Report) -> None:
    """When the program imports them."""
    on_import(_MODULE, lambda module: _exchange(module, report))


def _exchange(module: types.ModuleType, report: Report) -> None:
    def around(reset: Method) -> Method:
        def reset_and_exchange(self: Any) -> Any:
            before = vars(self).get("observations")
            found = reset(self)
            try:
                _put_rows(self, before, report)
            except Exception as error:  # the library's own arrays are in place
                report.left(f"rollouts stay as they are: {type(error).__name__}: {error}"[:300])
            return found

        return reset_and_exchange

    for name in _CLASSES:
        wrap_method(module, name, "reset", around)


def _put_rows(buffer: Any, before: Any, report: Report) -> None:
    import numpy as np

    stacks = vars(buffer).setdefault(_KNOWN, {})
    now = buffer.observations
    parts = now if isinstance(now, dict) else {"": now}
    earlier = before if isinstance(before, dict) else {"": before}
    rows = {}
    for key, array in parts.items():
        if type(array) is not np.ndarray or array.nbytes < _WORTH_BYTES or array.ndim < 3:
            rows[key] = array
            continue
        _learn(stacks, key, earlier.get(key), array, report)
        rows[key] = _new_rows(array, stacks.get(key, 0))
    buffer.observations = rows if isinstance(now, dict) else rows[""]


def _new_rows(array: Any, stack: int) -> Any:
    from ramledger.remedies.rollout_rows import RolloutRows

    steps, envs, *shape = array.shape
    return RolloutRows(steps, envs, tuple(shape), array.dtype, stack)


def _learn(stacks: dict[str, int], key: str, earlier: Any, array: Any, report: Report) -> None:
    """What the rollout before has shown, said once."""
    rows = getattr(earlier, "rows", earlier)
    stack = getattr(rows, "stack", 0)
    if key in stacks or not stack:
        return
    stacks[key] = stack
    size, place = array.nbytes, f"{array.shape[0]:,} steps × {array.shape[1]:,} environments"
    copied = array.shape[1] > 1  # one environment is flattened without a copy
    if stack > 1:
        text = (
            f"each frame is stored once, stacks of {stack} are made for batches: about "
            f"{format_bytes(size // stack)} instead of {format_bytes(size)} for {place}"
        )
        also = f", and no copy of {format_bytes(size)} when updates begin" if copied else ""
        report.applied(text + also, size - size // stack)
    elif copied:
        report.applied(
            f"observations are not copied for updates: {format_bytes(size)} less for a moment, "
            f"for {place}"
        )
