"""`kill -9` at random moments of saves, background saves, loads and uploads, 50 of each.

`python -m benchmarks.replay_kills [KILLS]`. After each: a whole checkpoint, never older than the
last save that was complete. The moments are those of
`tests/process/replay/test_kills.py`, and more.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.process.replay.test_kills import kill_loads, kill_saves, kill_uploads

KILLS = 50


def main(arguments: list[str]) -> int:
    kills = int(arguments[0]) if arguments else KILLS
    kinds: dict[str, Callable[[Path, int], None]] = {
        "save": partial(kill_saves, "save"),
        "background save": partial(kill_saves, "background"),
        "load": kill_loads,
        "upload to a folder": kill_uploads,
    }
    is_good = True
    for name, kill in kinds.items():
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                kill(Path(folder), kills)
                found = f"{kills} of {kills} whole and true"
            except Exception as error:
                found, is_good = f"FAILED: {error!r}", False
        print(f"{name}: {found}, {time.perf_counter() - started:.0f} s", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
