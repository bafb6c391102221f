"""Becomes a daemon: fork, setsid, fork, every descriptor closed; then opens its own."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from own_files import use_own_files

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.2)  # the agent of this process, if any, has begun
        os.closerange(3, 4096)
        try:
            said = "OK " + use_own_files(os.getcwd())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        with open("said.part", "w") as file:
            file.write(said)
        os.rename("said.part", "said")
    os._exit(0)
os.wait()
while not os.path.exists("said"):
    time.sleep(0.02)
with open("said") as file:
    print(file.read())
os.unlink("said")
