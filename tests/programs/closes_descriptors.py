"""Closes all descriptors that it did not open, uses their numbers anew, and guards what is there.

Arguments: what it puts there, and how it goes on: in the `same` process, as a `daemon`, or with a
`thread` that does so again and again. Says as JSON what was touched.
"""

import fcntl
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable

LOWEST = 100  # descriptors that are not guarded are at these numbers
SECONDS = float(os.environ.get("CLOSES_SECONDS", "1.6"))


def moved(number: int) -> int:
    """The same file at a higher number."""
    higher = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, LOWEST)
    os.close(number)
    return higher


def is_changed(number: int, identity: tuple[int, int]) -> str:
    try:
        found = os.fstat(number)
    except OSError:
        return f"{number} was closed"
    return "" if (found.st_dev, found.st_ino) == identity else f"{number} was replaced"


class Guarded:
    """Something of the program's own at a number that was somebody else's before."""

    def __init__(self, kind: str, number: int) -> None:
        self.number = number
        self.kept: list[select.epoll] = []  # they close their numbers by themselves
        self.check = getattr(self, f"make_{kind}")()
        found = os.fstat(number)
        self.identity = found.st_dev, found.st_ino

    def close(self) -> None:
        for one in self.kept:
            one.close()
        if not self.kept:
            os.close(self.number)

    def put(self, opened: int) -> None:
        if opened != self.number:
            os.dup2(opened, self.number)
            os.close(opened)

    def complaint(self) -> str:
        return is_changed(self.number, self.identity) or str(self.check())

    def make_file(self) -> Callable[[], str]:
        path = f"data-{os.getpid()}-{self.number}"
        self.put(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        os.write(self.number, b"mine")

        def check() -> str:
            with open(path, "rb") as file:
                return "" if file.read() == b"mine" else f"{self.number} was written to"

        return check

    def make_statm(self) -> Callable[[], str]:
        self.put(os.open("/proc/self/statm", os.O_RDONLY))
        return lambda: ""

    def make_pair(self) -> Callable[[], str]:
        mine, other = socket.socketpair()
        peer = socket.socket(fileno=moved(other.detach()))
        self.put(mine.detach())

        def check() -> str:
            try:
                got = peer.recv(100, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return ""
            return f"{self.number} sent {got!r}"

        return check

    def make_listener(self) -> Callable[[], str]:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"\0closes-{os.getpid()}-{self.number}")
        listener.listen()
        name = listener.getsockname()
        self.put(listener.detach())
        clients = []
        for _ in range(3):
            client = socket.socket(socket.AF_UNIX)
            client.connect(name)
            clients.append(socket.socket(fileno=moved(client.detach())))

        def check() -> str:
            server = socket.socket(fileno=self.number)
            server.setblocking(False)
            try:
                for _ in clients:
                    server.accept()[0].close()
            except BlockingIOError:
                return f"a connection of {self.number} was taken"
            finally:
                server.detach()
            return ""

        return check

    def make_eventfd(self) -> Callable[[], str]:
        self.put(os.eventfd(5, os.EFD_NONBLOCK))

        def check() -> str:
            try:
                found = os.eventfd_read(self.number)
            except BlockingIOError:
                found = 0
            return "" if found == 5 else f"{self.number} has {found}"

        return check

    def make_epoll(self) -> Callable[[], str]:
        waiting, ready = map(moved, os.pipe())
        made = select.epoll()
        self.put(os.dup(made.fileno()))
        mine = select.epoll.fromfd(self.number)
        mine.register(waiting, select.EPOLLIN | select.EPOLLONESHOT)
        os.write(ready, b"x")
        self.kept = [made, mine]

        return lambda: "" if mine.poll(0) else f"an event of {self.number} was taken"


def held() -> list[int]:
    numbers = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]
    return [number for number in numbers if os.path.lexists(f"/proc/self/fd/{number}")]


def held_on() -> list[int]:
    """Those that are not just being read."""
    before = held()
    time.sleep(0.05)
    return [number for number in held() if number in before]


def close_and_reuse(kind: str, numbers: list[int]) -> list[Guarded]:
    os.closerange(3, 4096)
    return [Guarded(kind, number) for number in numbers]


def work(seconds: float) -> None:
    kept = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kept.append(bytearray(b"x" * (1 << 20)))
        time.sleep(0.02)


def again_and_again(kind: str, complaints: list[str]) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not complaints:
        guarded = [Guarded(kind, number) for number in held_on() if not LOWEST <= number < 700]
        time.sleep(0.3)
        complaints += filter(None, (one.complaint() for one in guarded))
        for one in guarded:
            one.close()


def main(kind: str, how: str) -> list[str]:
    time.sleep(1.0)
    numbers = held()
    complaints: list[str] = []
    if how == "thread":
        closing = threading.Thread(target=again_and_again, args=(kind, complaints))
        closing.start()
        work(SECONDS)
        closing.join()
        return complaints
    if how == "daemon":
        answer, asked = os.pipe()
        if os.fork():
            os.close(asked)
            with open(answer, "rb") as file:
                told: list[str] = json.loads(file.read())
            return told
        os.setsid()
        time.sleep(1.0)  # it has an agent of its own by now
        numbers = held()
        os.dup2(asked, 1)
    guarded = close_and_reuse(kind, numbers)
    work(SECONDS)
    complaints = [text for text in (one.complaint() for one in guarded) if text]
    if how == "daemon":
        os.write(1, json.dumps(complaints).encode())
        os._exit(0)
    return complaints


if __name__ == "__main__":
    found = main(*sys.argv[1:3])
    print(json.dumps(found), flush=True)
