"""Threads that never end, threads that come and go, and a lock that all of them want."""

import os
import threading
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
lock = threading.Lock()
count = 0


def forever():
    while True:
        with lock:
            time.sleep(0.001)


def once():
    global count
    with lock:
        count += 1


for _ in range(30):
    threading.Thread(target=forever, daemon=True).start()
started = 0
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    some = [threading.Thread(target=once) for _ in range(5)]
    started += 5
    for thread in some:
        thread.start()
    for thread in some:
        thread.join()
assert count == started, (count, started)
print("OK", threading.active_count())
