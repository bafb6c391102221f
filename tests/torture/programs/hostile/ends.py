"""Ends in one of the ways that leave no time to clear up: `ends.py WAY`."""

import atexit
import ctypes
import os
import signal
import sys
import threading
import time

time.sleep(float(os.environ.get("TORTURE_SECONDS", "0.5")))
print("OK", flush=True)
way = sys.argv[1]
if way == "at once":
    os._exit(7)
elif way == "segfault":
    ctypes.string_at(8)
elif way == "abort":
    os.abort()
elif way == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif way == "term":
    os.kill(os.getpid(), signal.SIGTERM)
elif way == "atexit":
    atexit.register(lambda: print("still here", flush=True))
    atexit.register(sys.exit, 9)
    sys.exit(8)
elif way == "thread":
    threading.Thread(target=lambda: (time.sleep(0.3), os._exit(6))).start()
elif way == "raises":
    raise RuntimeError("as it wanted")
elif way == "interrupt":
    raise KeyboardInterrupt
