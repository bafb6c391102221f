"""Waiting for what will happen, not for a time: the limit only ends a test that hangs."""

import time
from collections.abc import Callable

HANGS_AFTER_SECONDS = 90.0


def wait_until(
    happened: Callable[[], object],
    seconds: float = HANGS_AFTER_SECONDS,
    why: Callable[[], object] = lambda: "it did not happen",
) -> None:
    """Return as soon as `happened()` is true; `why` says more where it never is."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, why()
        time.sleep(0.01)
