"""Runs code in interpreters of its own, one after the other and side by side with threads."""

import importlib
import os
import sys
import threading
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
interpreters = importlib.import_module(name)


def run_one():
    interpreter = interpreters.create()
    interpreters.run_string(interpreter, "import json; assert json.loads('[1]') == [1]")
    interpreters.destroy(interpreter)


end = time.monotonic() + SECONDS
while time.monotonic() < end:
    run_one()
thread = threading.Thread(target=run_one)
thread.start()
thread.join()
print("OK", len(interpreters.list_all()))
