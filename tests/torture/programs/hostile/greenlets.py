"""Switches between greenlets all the time; ends with 77 where there are none."""

import os
import sys
import time

try:
    from greenlet import getcurrent, greenlet
except ImportError:
    sys.exit(77)

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
parent = getcurrent()


def work(number):
    while True:
        number = parent.switch(number + 1)


ones = [greenlet(work) for _ in range(50)]
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    assert [one.switch(n) for n, one in enumerate(ones)] == list(range(1, 51))
print("OK")
