"""Its clocks jump: forward, backward, to infinity, and to a text."""

import os
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
monotonic, wall, counter = time.monotonic, time.time, time.perf_counter
JUMPS = (0.0, 1e9, -1e9, float("inf"), float("-inf"), float("nan"))


def work(number):
    return sum(range(number * 100))


def jump(by):
    time.monotonic = lambda: monotonic() + by
    time.time = lambda: wall() + by
    time.perf_counter = lambda: counter() - by


total = rounds = 0
end = monotonic() + SECONDS
while monotonic() < end or rounds < 12:
    jump(JUMPS[rounds % len(JUMPS)])
    total = work(50)
    rounds += 1
    time.sleep(0.02)
time.time = lambda: "midnight"
time.monotonic = lambda: "midnight"
time.sleep(0.1)
print("OK", total)
