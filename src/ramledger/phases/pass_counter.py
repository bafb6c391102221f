"""Numbers of a loop's passes: the loop variable where it counts one by one, else 1, 2, 3, ….

Numbers never go back: a loop that starts again goes on where it was.
"""

from dataclasses import dataclass, field

from ramledger.fork_lock import ForkLock
from ramledger.phases.loop_plan import UNKNOWN, LoopPlan

_PASS_SECONDS = 0.1  # faster passes of a loop count together


@dataclass(slots=True)
class RisingNumbers:
    """Numbers that somebody counts with; what starts again goes on after the last.

    A number that is neither the first nor a new one is of another thread: the last one stays.
    """

    _first: int | None = None
    _last: int | None = None
    _offset: int = 0
    has_restarted: bool = False

    def of(self, raw: int, *, is_restart: bool = False) -> int:
        """The number of what is counted as `raw`."""
        if self._first is None or self._last is None:
            self._first = self._last = raw
        elif raw < self._last:
            if is_restart or raw <= self._first:
                self._offset += self._last + 1 - raw
                self._last = raw
                self.has_restarted = True
        else:
            self._last = raw
        return self._last + self._offset


@dataclass(slots=True)
class PassCounter:
    """Counts the passes of one loop, seen from the agent's thread and from the program's own."""

    plan: LoopPlan = UNKNOWN
    number: int | None = None  # of the pass that was seen last
    value: int | None = None  # of the loop variable then
    _frame_id: int = 0
    _held: tuple[int, int] | None = None  # frame and value that do not go on from the last
    _turns: int = 1  # a loop that turns begins its second pass
    _turned_at: float = float("-inf")
    _numbers: RisingNumbers = field(default_factory=RisingNumbers)
    _lock: ForkLock = field(default_factory=ForkLock)

    @property
    def has_values(self) -> bool:
        """Whether the loop variable tells which pass it is."""
        return self.plan.start is not None and bool(self.plan.stride)

    @property
    def last_number(self) -> int | None:
        """The number of the last pass that is planned; None after a restart."""
        if self.plan.passes is None or self._numbers.has_restarted or self.plan.passes < 1:
            return None
        return self._raw_at(self.plan.passes - 1) if self.has_values else self.plan.passes

    def see(self, frame_id: int, value: object, now: float, *, turned: bool) -> int | None:
        """The number of a pass that has just begun; None while it is the same one."""
        with self._lock:
            if now - self._turned_at < _PASS_SECONDS:
                return None
            if self.has_values and type(value) is int:
                number = self._see_value(frame_id, value)
            else:
                number = self._turns + 1 if turned else None
            if number is not None:
                self._turned_at = now
                self._turns += 1
                self.number = number
            return number

    def _see_value(self, frame_id: int, value: int) -> int | None:
        if self.value is not None:
            ahead = (value - self.value) // (self.plan.stride or 1)
            if frame_id == self._frame_id and not ahead:
                return None
            if (frame_id != self._frame_id or ahead < 0) and not self._is_sure(frame_id, value):
                return None
        self._held = None
        self._frame_id, self.value = frame_id, value
        return self._numbers.of(self._raw(value), is_restart=True)

    def _is_sure(self, frame_id: int, value: int) -> bool:
        """Whether the loop has started again: the agent's thread may have read before another.

        It is sure where the next reading goes on from there.
        """
        held, self._held = self._held, (frame_id, value)
        return held is not None and held[0] == frame_id and held[1] <= value

    def _raw(self, value: int) -> int:
        return self._raw_at((value - (self.plan.start or 0)) // (self.plan.stride or 1))

    def _raw_at(self, index: int) -> int:
        """A variable that rises by one is the number that the program itself prints."""
        return index + (self.plan.start or 0) if self.plan.stride == 1 else index + 1
