"""Starts short processes all the time, in every way that the standard library has."""

import os
import subprocess
import sys
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
PYTHON = [sys.executable, "-c", "raise SystemExit(3)"]
end = time.monotonic() + 2 * SECONDS
rounds = 0
while time.monotonic() < end or rounds < 2:
    rounds += 1
    assert subprocess.run(["true"], close_fds=False).returncode == 0
    done = subprocess.run(PYTHON, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b""), done
    done = subprocess.run(PYTHON, capture_output=True, env={}, close_fds=True)
    assert (done.returncode, done.stderr) == (3, b""), done
    assert os.waitstatus_to_exitcode(os.system("exit 6")) == 6
    pid = os.posix_spawn("/bin/true", ["true"], os.environ)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.spawnv(os.P_WAIT, "/bin/true", ["true"]) == 0
print("OK")
