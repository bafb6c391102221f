"""Closes its streams, as objects and as descriptors, and goes on: `no_output.py object|number`."""

import os
import sys
import time

if sys.argv[1] == "object":
    print("OK")
    sys.stdout.close()
    sys.stderr.close()
    sys.stdin.close()
else:
    print("OK", flush=True)
    os.closerange(0, 3)
time.sleep(float(os.environ.get("TORTURE_SECONDS", "0.5")))
os._exit(3)
