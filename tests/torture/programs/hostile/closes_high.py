"""Opens files at the numbers of descriptors that it does not know, with dup2."""

import os
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
time.sleep(0.2)
own = os.open("own", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
numbers = sorted(int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2)
taken = sorted({*numbers, *range(50, 80), *range(200, 210), 500, 900})
for number in taken:
    if number != own:
        os.dup2(own, number)
size = 0
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    os.write(own, b"x")
    size += 1
    time.sleep(0.01)
identity = os.fstat(own).st_ino
lost = [n for n in taken if os.fstat(n).st_ino != identity]
print("OK" if not lost and os.fstat(own).st_size == size else f"lost {lost}, {size}")
