"""Resizes arrays in place all the time, large ones: numpy refuses while anybody else holds them."""

import os
import time

import numpy as np

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
arrays = [np.ones(1 << 18) for _ in range(8)]
failures = calls = 0
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    for number in range(len(arrays)):
        calls += 1
        try:
            arrays[number].resize((1 << 18) + calls % 100)
        except ValueError:
            failures += 1
    time.sleep(0.001)
assert all(float(array[: 1 << 18].sum()) == 1 << 18 for array in arrays)
print("OK" if not failures else f"{failures} resizes were refused")
