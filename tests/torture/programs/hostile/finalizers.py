"""Objects whose end has effects, weak references with callbacks, and one that comes back."""

import gc
import os
import time
import weakref

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
ended = []
back = []


class Counted:
    def __init__(self):
        self.ballast = bytes(200_000)

    def __del__(self):
        ended.append(1)


class Phoenix:
    def __del__(self):
        back.append(self)


gc.disable()
made = 0
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    one = Counted()
    made += 1
    weakref.finalize(one, lambda: None).atexit = False
    reference = weakref.ref(one, lambda _: None)
    del one
    assert reference() is None or len(ended) < made
    Phoenix()
    time.sleep(0.001)
# somebody who holds an object for a moment delays its end; nobody may for longer
time.sleep(0.3)
assert len(ended) == made and len(back) > 0, (len(ended), made)
print("OK")
