"""Freezes, switches off and tunes the garbage collector; all of it must stay as it was set."""

import gc
import os
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))


class Node:
    def __init__(self):
        self.me = self


calls = []
kept = [Node() for _ in range(1000)]
gc.disable()
gc.set_threshold(123, 4, 5)
gc.callbacks.append(lambda phase, info: calls.append(phase))
gc.freeze()
frozen = gc.get_freeze_count() > 1000
end = time.monotonic() + SECONDS
garbage = 0
while time.monotonic() < end:
    Node()
    garbage += 1
    time.sleep(0.001)
assert not calls, f"somebody collected: {calls[:4]}"
assert gc.collect() >= garbage, "somebody took our garbage"
print("OK", frozen, gc.get_freeze_count() > 1000, gc.isenabled(), gc.get_threshold(), len(calls))
gc.unfreeze()
