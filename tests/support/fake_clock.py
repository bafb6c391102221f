"""A clock that moves only when a test moves it, for modules that say `time.monotonic()`."""

from types import ModuleType

import pytest


class FakeClock:
    """Stands for the module `time` in one module of ours."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic

    def installed(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> "FakeClock":
        """From now on these modules read this clock."""
        for module in modules:
            monkeypatch.setattr(module, "time", self)
        return self
