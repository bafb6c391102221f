"""Supervises the command in its arguments, prints how it ended as JSON, then ends alike."""

import dataclasses
import json
import os
import sys
from pathlib import Path

from ramledger.recorder.supervise import Callbacks, die_like, supervise

ticks = 0


def tick() -> None:
    global ticks
    ticks += 1
    if "COUNT_TICKS" in os.environ:
        Path(os.environ["COUNT_TICKS"]).write_text("x" * ticks)
    if "BREAK_TICK" in os.environ:
        raise RuntimeError("the view is broken")


def start(pid: int) -> None:
    print(f"child {pid}", file=sys.stderr, flush=True)  # stdout is the child's as well


outcome = supervise(
    sys.argv[1:],
    os.environ,
    Callbacks(start, tick, lambda: print("stopping", flush=True)),
    tick_seconds=0.02,
)
found = dataclasses.asdict(outcome) | {"callback_error": repr(outcome.callback_error)}
print(json.dumps(found | {"ticks": ticks}), flush=True)
sys.exit(die_like(outcome))
