"""Has little address space or few descriptors: `limits.py memory|files`."""

import os
import resource
import sys
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    opened = []
    try:
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        code = error.errno
    time.sleep(SECONDS)
    still = all(os.fstat(number) for number in opened)
    for number in opened:
        os.close(number)
    return code, still, len(opened) > 20


def little_memory():
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (96 << 20), used + (96 << 20)))
    blocks = []
    try:
        while True:
            blocks.append(bytearray(1 << 20))
    except MemoryError:
        count = len(blocks)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(0.01)
    del blocks
    return count > 40, len(bytearray(8 << 20))


print("OK", few_files() if sys.argv[1] == "files" else little_memory())
