"""Takes memory until the kernel ends it."""

import time

kept = []
print("OK", flush=True)
while True:
    kept.append(bytearray(b"x") * (4 << 20))
    time.sleep(0.02)
