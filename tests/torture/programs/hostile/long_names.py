"""Classes, keys, attributes and a function with names of a million characters."""

import os
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
LONG = "n" * 1_000_000
Long = type(LONG, (), {"__slots__": ()})
Odd = type("\x1b[31m\n" + "é" * 10_000, (), {})
kept = [Long() for _ in range(100)]
others = [Odd() for _ in range(100)]
by_name = {LONG: bytearray(4 << 20), "\ud800": bytearray(1 << 20), "\x1b]0;title\x07": [1]}
globals()[LONG] = bytearray(4 << 20)
Odd.held = type("Holder", (), {LONG: bytearray(1 << 20)})


def work(number):
    return sum(range(number))


work.__qualname__ = work.__name__ = LONG
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    work(1000)
    time.sleep(0.02)
print("OK", len(kept), len(by_name), len(others))
