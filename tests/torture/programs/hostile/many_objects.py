"""Five million objects of its own, in a list."""

import os
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))


class Small:
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number


def rss_peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("VmHWM"))


kept = [Small(number) for number in range(2_500_000)]
pairs = [(number, None) for number in range(2_500_000)]
before = rss_peak()
end = time.monotonic() + 3 * SECONDS
while time.monotonic() < end:
    sum(range(1000))
    time.sleep(0.005)
total = sum(one.number for one in kept) + sum(number for number, _ in pairs)
grown = rss_peak() - before
print("OK", total, f"grew by {grown} MiB" if grown > 64 else "")
