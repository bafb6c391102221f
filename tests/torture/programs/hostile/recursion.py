"""Recursion close to the limit, by a function that its loop calls by name."""

import os
import sys
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))


def dive(depth):
    return depth if depth == 0 else 1 + dive(depth - 1)


depth = sys.getrecursionlimit() - 60
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    assert dive(depth) == depth
    time.sleep(0.01)
try:
    dive(2 * depth)
except RecursionError:
    print("OK", depth)
