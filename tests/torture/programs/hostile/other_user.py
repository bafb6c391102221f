"""Becomes nobody, in a root directory or in namespaces of its own: `other_user.py WAY`."""

import ctypes
import os
import sys
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000  # linux/sched.h
time.sleep(SECONDS / 3)
way = sys.argv[1]
if way == "user":
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
elif way == "root":
    os.mkdir("jail", 0o755)
    os.chroot("jail")
    os.chdir("/")
elif ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS | CLONE_NEWNET):
    sys.exit(77)
time.sleep(SECONDS)
print("OK", os.getuid(), os.listdir("/") if way == "root" else "")
