"""What a daemon and a closer of descriptors share: files and sockets that must stay as they are."""

import os
import select
import socket
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))


def use_own_files(folder, count=24):
    """Open files and sockets, use them for a while, and say what they hold at the end."""
    files = [os.open(f"{folder}/own{n}", os.O_RDWR | os.O_CREAT | os.O_TRUNC) for n in range(count)]
    pairs = [socket.socketpair() for _ in range(count // 2)]
    numbers = [*files, *(end.fileno() for pair in pairs for end in pair)]
    before = [(os.fstat(n).st_dev, os.fstat(n).st_ino) for n in numbers]
    rounds = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or rounds < 5:
        rounds += 1
        for file in files:
            os.write(file, b"own ")
        for left, right in pairs:
            left.send(b"own")
            assert right.recv(100) == b"own", "a socket received what was not sent"
        time.sleep(0.01)
    assert [(os.fstat(n).st_dev, os.fstat(n).st_ino) for n in numbers] == before, "another file"
    for number, file in enumerate(files):
        with open(f"{folder}/own{number}", "rb") as opened:
            assert opened.read() == b"own " * rounds, f"own{number} holds something else"
        os.close(file)
    waiting = select.select([end for pair in pairs for end in pair], [], [], 0)[0]
    assert not waiting, "a socket received what was not sent"
    return f"{len(files)} files and {len(pairs)} pairs"
