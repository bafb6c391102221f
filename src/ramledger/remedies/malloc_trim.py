"""`malloc`: freed memory goes back to the system at the ends of phases, while that is worth it.

After a trim that gave back little, the rest at that place doubles; what trims gave and cost is
said at the end. The variables are in force since the process started: see `malloc_choice`.
"""

import atexit
import os
import time
from collections import Counter

from ramledger.agent.observer import AT_ENDS
from ramledger.measure.allocators import malloc
from ramledger.measure.allocators.malloc_kind import recognize
from ramledger.measure.mappings import read_mappings
from ramledger.measure.own_memory import Meter
from ramledger.remedies.malloc_choice import DEFAULT
from ramledger.remedies.reporting import Report
from ramledger.units import format_bytes

_FIRST_REST_SECONDS, _LONGEST_REST_SECONDS = 10.0, 600.0
_WORTH_SHARE = 0.02  # of RSS: less is not worth a trim
_MOST_TIME = 0.005  # of the time
_MOST_PLACES = 32


class Trimmer:
    """Trims where phases and iterations end; every place has a rest of its own."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._not_before = time.monotonic() + _FIRST_REST_SECONDS
        self._rests: dict[str, float] = {}
        self._next: dict[str, float] = {}
        self.trims = 0
        self.seconds = 0.0
        self.given_bytes: Counter[str] = Counter()  # by place, of trims that were worth it
        self.little_bytes = 0  # of the others

    def ends(self, place: str) -> None:
        """A phase or an iteration ends here."""
        now = time.monotonic()
        if now < self._not_before or now < self._next.get(place, 0.0):
            return
        if place not in self._next and len(self._next) >= _MOST_PLACES:
            return
        before = self._meter.rss_bytes()
        malloc.trim()
        given = max(0, before - self._meter.rss_bytes())
        after = time.monotonic()
        self.trims, self.seconds = self.trims + 1, self.seconds + after - now
        self._not_before = after + (after - now) / _MOST_TIME
        if given >= _WORTH_SHARE * before:
            self.given_bytes[place] += given
            rest = _FIRST_REST_SECONDS
        else:
            self.little_bytes += given
            rest = min(_LONGEST_REST_SECONDS, 2 * self._rests.get(place, _FIRST_REST_SECONDS))
        self._rests[place], self._next[place] = rest, after + rest

    def summary(self) -> str:
        """One sentence; "" where there was nothing to trim at."""
        if not self.trims:
            return ""
        given = format_bytes(self.given_bytes.total() + self.little_bytes)
        times = "1 trim" if self.trims == 1 else f"{self.trims} trims"
        text = f"{times} gave back {given} in {self.seconds:.2f} s"
        if not self.given_bytes:
            return f"{text}: not worth it here"
        places = ", ".join(name for name, _ in self.given_bytes.most_common(3))
        return f"{text}, most at the end of {places}"


def install(choice: str, report: Report) -> None:
    """`choice` says which variables were set for this process, and why; without it, by us now."""
    if not malloc.is_glibc():
        report.left(f"malloc is {_other_malloc()} here: glibc's settings and trims do nothing")
        return
    if choice:
        (report.applied if choice.startswith("MALLOC_") else report.left)(choice)
    else:
        _set_threshold(report)
    trimmer = Trimmer()
    AT_ENDS.append(trimmer.ends)
    atexit.register(_say, trimmer, report)


def _set_threshold(report: Report) -> None:
    """In a process that runs already."""
    ((variable, wanted),) = DEFAULT.variables.items()
    present = os.environ.get(variable)
    if present is None and not malloc.return_large_blocks(int(wanted)):
        report.left("this C library has no such setting")
    elif present in (None, wanted):
        report.applied("blocks of 1 MiB and more go back to the system when they are freed")
    else:
        report.left(f"{variable} is set to {present} already")


def _other_malloc() -> str:
    found = recognize(read_mappings(os.getpid()), malloc.settings_of(os.getpid()), os.getpid())
    return "another one" if found.name in ("glibc", "unknown") else found.name


def _say(trimmer: Trimmer, report: Report) -> None:
    text = trimmer.summary()
    if text:
        report.applied(text)
