"""Programs to be entered: `enter_target.py MODE COUNTER` counts its rounds in a file of 8 bytes."""

import ctypes
import mmap
import os
import select
import signal
import sys
import threading
import time

IMPORTED_BY_US_TOO = ("json", "socket", "selectors", "struct", "typing", "contextlib")


class Counter:
    """Rounds of work, seen from outside through a mapped file."""

    def __init__(self, path: str) -> None:
        with open(path, "wb+") as file:
            file.truncate(8)
            self._memory = mmap.mmap(file.fileno(), 8)
        self._rounds = 0

    def advance(self) -> None:
        self._rounds += 1
        self._memory[:] = self._rounds.to_bytes(8, "little")


def sleeping(counter: Counter) -> None:
    while True:
        time.sleep(0.005)
        counter.advance()


def allocating(counter: Counter) -> None:
    """malloc and free in several threads, without the interpreter's lock."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = (ctypes.c_void_p,)

    def work() -> None:
        while True:
            for block in [libc.malloc(100 * size) for size in range(1, 50)]:
                libc.free(block)
            counter.advance()

    for _ in range(2):
        threading.Thread(target=work, daemon=True).start()
    work()


def waiting_for_a_lock(counter: Counter) -> None:
    thread = threading.Thread(target=sleeping, args=(counter,))
    thread.start()
    thread.join()


def reading_a_pipe(counter: Counter) -> None:
    reader, writer = os.pipe()

    def feed() -> None:
        while True:
            time.sleep(0.01)
            os.write(writer, b"x")

    threading.Thread(target=feed, daemon=True).start()
    while True:
        os.read(reader, 1)
        counter.advance()


def polling(counter: Counter) -> None:
    poll = select.epoll()
    while True:
        poll.poll(0.01)
        counter.advance()


def forking(counter: Counter) -> None:
    """Children import what we import: none may hang in an import lock."""
    while True:
        child = os.fork()
        if child == 0:
            for name in IMPORTED_BY_US_TOO:
                __import__(name)
            os._exit(7)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 7:
            raise SystemExit("a child failed")
        counter.advance()


def signaled(counter: Counter) -> None:
    """A signal every millisecond, which often interrupts malloc."""
    signal.signal(signal.SIGALRM, lambda *_: counter.advance())
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    while True:
        _ = [bytes(5000) for _ in range(50)]


def calculating(counter: Counter) -> None:
    """Floating-point registers are in use all the time: a lost one would change a sum."""

    def total() -> float:
        value = 0.1
        for _ in range(2000):
            value = value * 1.0000001 + 0.3
        return value

    expected = total()
    while total() == expected:
        counter.advance()
    raise SystemExit("a floating-point register was lost")


def holding_the_gil(counter: Counter) -> None:
    """A second and a half at a time in C, without giving the interpreter's lock away."""
    libc = ctypes.PyDLL(None)
    while True:
        counter.advance()
        libc.usleep(1_500_000)


def sleeping_once(counter: Counter) -> None:
    """Interrupted sleeps have to be as long as they were meant to be."""
    counter.advance()
    began = time.monotonic()
    time.sleep(2.5)
    print(time.monotonic() - began)


if __name__ == "__main__":
    globals()[sys.argv[1]](Counter(sys.argv[2]))
