"""Stops itself; a child continues it. Twice."""

import os
import signal
import time

for _ in range(2):
    time.sleep(float(os.environ.get("TORTURE_SECONDS", "0.5")) / 2)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        time.sleep(0.3)
        os.kill(parent, signal.SIGCONT)
        os._exit(0)
    os.kill(parent, signal.SIGSTOP)
    os.waitpid(child, 0)
print("OK")
