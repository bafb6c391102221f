"""Prints a million lines."""

import sys

for number in range(1_000_000):
    print(number)
print("half a line", end="")
sys.stdout.flush()
print("OK", file=sys.stderr)
