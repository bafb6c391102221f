"""Prints every signal it gets, and ends on SIGTERM with code 7. `quick` dies of it instead."""

import os
import signal
import sys
import time
from types import FrameType

NUMBERS = [
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGWINCH, signal.SIGCONT,
]  # fmt: skip


def told(number: int, _: FrameType | None) -> None:
    os.write(1, f"got {signal.Signals(number).name}\n".encode())
    if number == signal.SIGTERM:
        os._exit(7)


if "quick" not in sys.argv:
    for number in NUMBERS:
        signal.signal(number, told)
print("ready", flush=True)
deadline = time.monotonic() + 200
while time.monotonic() < deadline:
    time.sleep(0.05)
sys.exit("nobody ended it")
