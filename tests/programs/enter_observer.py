"""A program that says what it sees of itself: one JSON line at its start, one when told to end.

It imports no `threading` of its own before it is told to, and then checks who is the main thread.
"""

import json
import sys


def what_is_seen() -> dict[str, list[str]]:
    return {
        "names": sorted(globals()),
        "path": list(sys.path),
        "modules": sorted(sys.modules),
    }


print(json.dumps(what_is_seen()), flush=True)
sys.stdin.readline()
print(json.dumps(what_is_seen()), flush=True)

import threading  # noqa: E402

if threading.main_thread() is not threading.current_thread():
    raise SystemExit("the main thread is taken for another")
threading.Thread(target=print, args=("done",)).start()
raise SystemExit(5)
