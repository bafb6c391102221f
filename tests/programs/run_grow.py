"""Grows by 20 MiB a second until somebody ends it, or until 30 seconds are over."""

import sys
import time

kept = []
deadline = time.monotonic() + 30
while time.monotonic() < deadline:
    kept.append(bytearray(b"x" * (2 << 20)))
    time.sleep(0.1)
sys.exit("nobody ended it")
