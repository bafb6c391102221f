"""`malloc`: freed memory goes back to the system after an iteration, while that is worth its time.

A trim that gave back little is followed by a longer rest; what it cost and gave is said at the end.
"""

import atexit
import time

from ramledger.agent import observer
from ramledger.measure.allocators.malloc import trim
from ramledger.measure.own_memory import Meter
from ramledger.remedies.reporting import Report
from ramledger.units import MIB, format_bytes

_FIRST_REST_SECONDS, _LONGEST_REST_SECONDS = 10.0, 600.0
_WORTH_SHARE = 0.02  # of RSS: less is not worth a trim
_MOST_TIME = 0.005  # of the time


class Trimmer:
    """Trims at the ends of iterations."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._rest = _FIRST_REST_SECONDS
        self._next = time.monotonic() + self._rest
        self.trims = 0
        self.seconds = 0.0
        self.given_back_bytes = 0

    def iteration_ended(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        before = self._meter.rss_bytes()
        trim()
        given = max(0, before - self._meter.rss_bytes())
        took = time.monotonic() - now
        self.trims, self.seconds = self.trims + 1, self.seconds + took
        self.given_back_bytes += given
        if given >= _WORTH_SHARE * before:
            self._rest = max(_FIRST_REST_SECONDS, took / _MOST_TIME)
        else:
            self._rest = min(_LONGEST_REST_SECONDS, 2 * self._rest)
        self._next = time.monotonic() + self._rest


def install(_: str, report: Report) -> None:
    """After each iteration that somebody counts."""
    if observer.OBSERVER is not None:
        trimmer = Trimmer()
        observer.OBSERVER.after_iteration.append(trimmer.iteration_ended)
        atexit.register(_say, trimmer, report)


def _say(trimmer: Trimmer, report: Report) -> None:
    if trimmer.trims:
        given = format_bytes(trimmer.given_back_bytes)
        times = "1 trim" if trimmer.trims == 1 else f"{trimmer.trims} trims"
        worth = "" if trimmer.given_back_bytes >= MIB else ": not worth it here"
        report.applied(f"{times} gave back {given} in {trimmer.seconds:.2f} s{worth}")
