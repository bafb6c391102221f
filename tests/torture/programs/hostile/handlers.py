"""Own handlers for many signals, SIGCHLD among them, and a wakeup descriptor: none is missed."""

import os
import signal
import socket
import subprocess
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
got = []
left, right = socket.socketpair()
left.setblocking(False)
right.setblocking(False)
CAUGHT = (
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGWINCH,
    signal.SIGCONT, signal.SIGPIPE, signal.SIGRTMIN, signal.SIGRTMAX, signal.SIGPROF,
)  # fmt: skip


def handler(number, _):
    got.append(number)


def drained():
    try:
        return right.recv(1 << 16)
    except BlockingIOError:
        return b""


woken = b""
for number in (*CAUGHT, signal.SIGCHLD):
    signal.signal(number, handler)
signal.set_wakeup_fd(left.fileno(), warn_on_full_buffer=False)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
end = time.monotonic() + SECONDS
rounds = 0
while time.monotonic() < end or rounds < 3:
    rounds += 1
    for number in CAUGHT:
        os.kill(os.getpid(), number)
    subprocess.run(["true"], check=True)
    time.sleep(0.02)
    woken += drained()
counts = {number: got.count(number) for number in CAUGHT}
assert set(counts.values()) == {rounds}, (rounds, counts)
assert got.count(signal.SIGCHLD) == rounds, (rounds, got.count(signal.SIGCHLD))
assert len(woken) == len(got), (len(woken), len(got))
assert all(signal.getsignal(number) is handler for number in CAUGHT)
assert signal.set_wakeup_fd(-1) == left.fileno()
print("OK", len(CAUGHT), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
