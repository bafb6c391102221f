"""Builds tuples from generators in two threads all the time: nobody may hold them half-built."""

import os
import threading
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
LENGTH = 5000
failures = []
whole = tuple(range(LENGTH))
is_over = threading.Event()


def slowly():
    for number in range(LENGTH):
        if number % 500 == 0:
            time.sleep(0)
        yield number


def build():
    while not is_over.is_set():
        try:
            if tuple(slowly()) != whole:
                failures.append("another tuple")
        except BaseException as error:
            failures.append(repr(error))


threads = [threading.Thread(target=build) for _ in range(2)]
for thread in threads:
    thread.start()
time.sleep(SECONDS)
is_over.set()
for thread in threads:
    thread.join()
print("OK" if not failures else f"{len(failures)} failures, the first: {failures[0]}")
