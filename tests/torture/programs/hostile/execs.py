"""Becomes another program, three times: Python, a shell, Python again."""

import os
import sys
import time

if len(sys.argv) == 1:
    time.sleep(0.2)
    script = f'exec "{sys.executable}" "{os.path.abspath(__file__)}" last $$'
    os.execv("/bin/sh", ["/bin/sh", "-c", script])
time.sleep(float(os.environ.get("TORTURE_SECONDS", "0.5")))
print("OK", os.getpid() == int(sys.argv[2]))
sys.exit(4)
