"""A word on stderr when something takes longer than people expect of a command."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Timer

PATIENCE_SECONDS = 2.0


@contextmanager
def patience(message: str, after_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Print `message` once if the block is still running after a while."""
    timer = Timer(after_seconds, _say, [message])
    timer.daemon = True
    # a thread takes over the mask it is started with: signals stay with the main thread, which
    # holds them back while it borrows a thread of another process
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        timer.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        yield
    finally:
        timer.cancel()


def _say(message: str) -> None:
    with suppress(OSError, ValueError):
        print(f"ramledger: {message} …", file=sys.stderr, flush=True)
