"""Classes whose instances keep a frame or a traceback."""

import inspect
from typing import Any

from ramledger.objects.census.frame_holders import frame_holders


class CrashError(Exception):
    pass


class Report:
    def __init__(self, frame: Any) -> None:
        self.frame = frame


class Slotted:
    __slots__ = ("trace",)
    trace: Any


def crashed() -> CrashError:
    try:
        raise CrashError
    except CrashError as error:
        return error


def test_exceptions_frames_and_tracebacks_are_found() -> None:
    error = crashed()
    slotted, empty = Slotted(), Slotted()
    slotted.trace = error.__traceback__
    found = frame_holders(
        [error, CrashError(), Report(inspect.currentframe()), Report(None), slotted, empty]
    )
    assert {name.rpartition(".")[2]: count for name, count in found.items()} == {
        "CrashError": 1, "Report": 1, "Slotted": 1,
    }  # fmt: skip
