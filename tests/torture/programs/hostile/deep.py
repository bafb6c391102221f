"""Chains of 100,000 dicts, lists, tuples and objects, one in the other."""

import os
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
DEPTH = 100_000


class Node:
    def __init__(self, below):
        self.below = below


def chain(wrap):
    value = None
    for _ in range(DEPTH):
        value = wrap(value)
    return value


def depth_of(value, unwrap):
    depth = 0
    while value is not None:
        value = unwrap(value)
        depth += 1
    return depth


dicts = chain(lambda value: {"below": value})
lists = chain(lambda value: [value])
tuples = chain(lambda value: (value,))
nodes = chain(Node)


def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("VmHWM"))


before = peak()
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    sum(range(1000))
    time.sleep(0.02)
depths = {
    depth_of(dicts, lambda value: value["below"]), depth_of(lists, lambda value: value[0]),
    depth_of(tuples, lambda value: value[0]), depth_of(nodes, lambda value: value.below),
}  # fmt: skip
# a look may take some memory, and an agent some more, but not as much as the chains do
print("OK", depths, f"grew by {peak() - before} MiB" if peak() - before > 48 else "")
