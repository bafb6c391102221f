"""A busy program to be entered: `target.py MOOD`; works until its input ends, then says how it is.

Each round of work has one right result. What must not change is noted first and compared last.
"""

import asyncio
import ctypes
import gc
import hashlib
import importlib
import json
import os
import random
import re
import select
import signal
import socket
import sys
import tempfile
import threading
import time
import zlib

IMPORTED = ("colorsys", "fractions", "statistics", "textwrap", "plistlib", "wave", "cmd", "chunk")


def digest(data):
    return hashlib.sha256(data).hexdigest()


def torch():
    import torch as library

    library.set_num_threads(2)
    x = library.arange(90_000, dtype=library.float32).reshape(300, 300) / 90_000
    for _ in range(20):
        x = library.tanh(x @ x.T) - 0.1 * x
    return digest(x.numpy().tobytes())


def numpy():
    import numpy as library

    values = library.random.default_rng(3).standard_normal((300, 300))
    for _ in range(10):
        values = library.sort(library.tanh(values @ values.T / 300), axis=0)
    return digest(values.tobytes())


def threads():
    found = []
    workers = [
        threading.Thread(target=lambda n=n: found.append(digest(bytes(1000 * n))))
        for n in range(40)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return digest("".join(sorted(found)).encode())


def malloc():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = (ctypes.c_void_p,)

    def churn():
        for _ in range(20):
            for block in [libc.malloc(100 * size) for size in range(1, 50)]:
                libc.free(block)

    others = [threading.Thread(target=churn) for _ in range(2)]
    for other in others:
        other.start()
    churn()
    for other in others:
        other.join()
    return digest(b"".join(bytes([n % 251]) * 5000 for n in range(200)))


def imports():
    names = []
    for name in IMPORTED:
        sys.modules.pop(name, None)
        try:
            names += sorted(dir(importlib.import_module(name)))
        except ImportError:
            continue
    return digest(" ".join(names).encode())


def long_call():
    return digest(zlib.compress(random.Random(1).randbytes(3_000_000) * 2, 6))


def regex():
    return str(re.match(r"(a+)+$", "a" * 21 + "b"))


def sort():
    values = [(n * 7_919) % 1_000_003 for n in range(600_000)]
    values.sort()
    return digest(repr(values[::1000]).encode())


def forks():
    codes = []
    for number in range(10):
        child = os.fork()
        if child == 0:
            importlib.import_module(IMPORTED[number % len(IMPORTED)])
            os._exit(number)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return repr(codes)


def signals():
    count = [0]
    before = signal.signal(signal.SIGALRM, lambda *_: count.__setitem__(0, count[0] + 1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    data = digest(b"".join(bytes(5000) for _ in range(2000)))
    while count[0] < 20:
        time.sleep(0.001)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    return data


def coroutines():
    async def one(number):
        await asyncio.sleep(0.001 * (number % 3))
        return number * number

    async def all_of_them():
        return await asyncio.gather(*map(one, range(300)))

    return digest(repr(asyncio.run(all_of_them())).encode())


def kernel_masks():
    """Blocked, ignored and caught signals, without 32 and 33, which are the C library's own."""
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    masks = (int(fields[name], 16) & ~(3 << 31) for name in ("SigBlk", "SigIgn", "SigCgt"))
    return [hex(mask) for mask in masks]


def settings():
    return {
        "handlers": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "kernel's signals": kernel_masks(),
        "sys.path": list(sys.path),
        "sys.meta_path": [repr(finder) for finder in sys.meta_path],
        "gc": [gc.isenabled(), gc.get_threshold(), len(gc.callbacks)],
        "hooks": [repr(h) for h in (sys.gettrace(), sys.getprofile(), sys.excepthook)],
        "switch interval": sys.getswitchinterval(),
        "recursion limit": sys.getrecursionlimit(),
        "directory": os.getcwd(),
        "environment": dict(os.environ),
        "names": sorted(globals()),
    }


class Descriptors:
    """A file, a pipe and a socket pair: each must stay itself and hold only what was put there."""

    def __init__(self):
        self.file = os.fdopen(tempfile.mkstemp()[0], "wb")
        self.pipe = os.pipe()
        self.pair = socket.socketpair()
        self.sent = 0
        self.before = self.identities()

    def numbers(self):
        return [0, 1, 2, self.file.fileno(), *self.pipe, *(end.fileno() for end in self.pair)]

    def identities(self):
        return [(n, os.fstat(n).st_dev, os.fstat(n).st_ino) for n in self.numbers()]

    def use(self):
        self.sent += 1
        self.file.write(b"x")
        os.write(self.pipe[1], b"y")
        self.pair[0].send(b"z")
        return os.read(self.pipe[0], 10) == b"y" and self.pair[1].recv(10) == b"z"

    def problem(self):
        try:
            if self.identities() != self.before:
                return "a descriptor is another one now"
            self.file.flush()
            if os.fstat(self.file.fileno()).st_size != self.sent:
                return "a file holds what was not written to it"
        except OSError as error:
            return f"a descriptor was lost: {error}"
        return ""


def main(mood, ending):
    work = globals()[mood]
    expected = work()
    descriptors = Descriptors()
    before = settings()
    print("ready", flush=True)
    rounds = wrong = 0
    is_last = False
    while not is_last:
        is_last = bool(select.select([0], [], [], 0)[0])  # a whole round comes after it
        rounds += 1
        wrong += work() != expected or not descriptors.use()
    changed = [name for name, value in settings().items() if value != before[name]]
    facts = {"rounds": rounds, "wrong": wrong, "changed": changed, "lost": descriptors.problem()}
    print(json.dumps(facts), flush=True)
    if ending == "at once":
        os._exit(5)
    sys.exit(5)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
