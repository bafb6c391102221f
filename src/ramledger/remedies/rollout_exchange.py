"""What holds the observations of a rollout, exchanged when its buffer is reset, and what it saved.

Arrays are laid out environment after environment, so that flattening them copies nothing; images
that are stacks or bytes become rows.
"""

import atexit
from dataclasses import dataclass, field
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ramledger.measure.own_memory import Meter
from ramledger.remedies.byte_codes import NO_CODE, first_code
from ramledger.remedies.frame_stacks import UNKNOWN
from ramledger.remedies.reporting import Report
from ramledger.remedies.rollout_attribute import NAME, rows_of
from ramledger.remedies.rollout_rows import RolloutRows, no_copy
from ramledger.units import MIB, format_bytes

_STATES = ("hidden_states_pi", "cell_states_pi", "hidden_states_vf", "cell_states_vf")
_WORTH_BYTES = MIB
_READS = 3  # the third batch of an update: the first two have shown what batches need
_UPDATES = 2  # the second finds what the first has left in malloc


@dataclass(slots=True, eq=False)
class _Known:
    """What the rollouts of one buffer have shown."""

    ways: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By key of the observations: frames of a stack, and what bytes are divided by."""
    is_used_elsewhere: bool = False
    reads: int = 0
    """Batches of this update."""
    updates: int = 0
    rss_bytes: int = 0
    """When the update began."""


class Rollouts:
    """The rollout buffers of this process."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._meter = Meter()
        self._known: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()
        self._pending: dict[_Known, list[tuple[str, int]]] = {}
        atexit.register(self._say_pending)

    def exchange(self, buffer: Any, before: Any) -> None:
        """Rows in the place of the observations that a buffer has just made."""
        held = vars(buffer)[NAME]
        try:
            known = self._known.setdefault(buffer, _Known())
            known.reads = 0
            _learn(known, before)
            if type(held) is dict:
                vars(buffer)[NAME] = {key: _rows(known, key, held[key]) for key in held}
            else:
                vars(buffer)[NAME] = _rows(known, "", held)
        except Exception as error:  # the library's own arrays stay
            vars(buffer)[NAME] = held
            self._report.left(f"rollouts stay as they are: {type(error).__name__}: {error}"[:300])

    # ---- told by the attribute -----------------------------------------------------------------

    def used_elsewhere(self, buffer: Any, where: str) -> None:
        """From now on its observations are arrays; these are not copied either."""
        known = self._known.get(buffer)
        if known is not None:
            known.is_used_elsewhere = True
        self._report.left(f"observations are kept as an array: {where} uses them"[:300])

    def batch_read(self, buffer: Any) -> None:
        """After a few batches it is known what an update needs, and so what was saved."""
        known = self._known.get(buffer)
        if known is None or known.updates >= _UPDATES:
            return
        known.reads += 1
        if known.reads == 1:
            known.rss_bytes = self._meter.rss_bytes()
            if known not in self._pending:
                self._pending[known] = _savings(vars(buffer)[NAME], buffer, None)
        elif known.reads == _READS:
            known.updates += 1
            needs = max(0, self._meter.peak_bytes() - known.rss_bytes)
            self._pending[known] = _savings(vars(buffer)[NAME], buffer, needs)

    def _say_pending(self) -> None:
        for text, saves_bytes in (line for lines in self._pending.values() for line in lines):
            self._report.applied(text, saves_bytes)


def _savings(held: Any, buffer: Any, needs_bytes: int | None) -> list[tuple[str, int]]:
    """What to say; `needs_bytes`: for a moment, by batches, when the copy would be freed again."""
    parts = held if type(held) is dict else {"": held}
    steps, envs = buffer.buffer_size, buffer.n_envs
    place = f"{steps:,} steps × {envs:,} environments"
    bytes_of = {key: prod(part.shape) * part.dtype.itemsize for key, part in parts.items()}
    sizes = {key: size for key, size in bytes_of.items() if size >= _WORTH_BYTES}
    found = []
    for key, usual in sizes.items():
        rows = rows_of(parts[key])
        if rows is not None and rows.is_compact:
            own = rows.used_bytes
            text = f"{_how(rows)}: {format_bytes(own)} instead of {format_bytes(usual)} for {place}"
            found.append((text, max(0, usual - own)))
    if envs > 1 and sizes:  # one environment is flattened without a copy
        # of several observations the last one's copy stays during the first epoch
        last = next(reversed(parts))
        stays = sizes.get(last, 0) if last else 0
        most = max(sizes.values())
        freed = 0 if needs_bytes is None else most - needs_bytes
        text = f"observations are not copied for updates: {format_bytes(most)} less for a moment"
        found.append((f"{text}, for {place}", max(freed, stays, 0)))
    return found


def _how(rows: RolloutRows) -> str:
    how = []
    if rows.stack > 1:
        how.append(f"each frame is stored once, stacks of {rows.stack} are made for batches")
    if rows.divisor:
        how.append("floats that are bytes are stored as bytes")
    return "; ".join(how)


def _learn(known: _Known, before: Any) -> None:
    for key, value in (before if type(before) is dict else {"": before}).items():
        rows = rows_of(value)
        if rows is not None and rows.stack != UNKNOWN:
            known.ways[key] = (rows.stack, rows.divisor if rows.is_compact else NO_CODE)


def _rows(known: _Known, key: str, array: Any) -> Any:
    """What to hold in the place of this array of zeros."""
    if type(array) is not np.ndarray or array.ndim < 3 or array.nbytes < _WORTH_BYTES:
        return array
    steps, envs, *rest = array.shape
    shape = tuple(rest)
    stack, divisor = known.ways.get(key, (UNKNOWN, first_code(array.dtype)))
    if not known.is_used_elsewhere:
        rows = RolloutRows(steps, envs, shape, array.dtype, stack, divisor)
        if rows.is_compact:
            return rows
    return array if envs == 1 else no_copy(steps, envs, shape, array.dtype)


def exchange_states(buffer: Any, report: Report) -> None:
    """States of an LSTM, (steps, layers, environments, …), in the same order of memory."""
    try:
        for name in _STATES:
            array = vars(buffer).get(name)
            if type(array) is np.ndarray and array.ndim == 4 and array.nbytes >= _WORTH_BYTES:
                steps, layers, envs, size = array.shape
                states = np.zeros((envs, steps, layers, size), array.dtype)
                vars(buffer)[name] = states.transpose(1, 2, 0, 3)
    except Exception as error:
        report.left(f"LSTM states stay as they are: {type(error).__name__}: {error}"[:300])
