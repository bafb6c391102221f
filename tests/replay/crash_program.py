"""Saves or loads over and over until it is killed: `crash_program.py save|background|load FOLDER`.

Each line it prints is a save or load that is complete.
"""

import sys

from ramledger.errors import CheckpointError
from ramledger.replay import ReplayBuffer
from tests.replay.programs import add, assert_true, filled

FIRST = 2500
MORE = 170


def saves(folder: str, background: bool) -> None:
    try:
        buffer = ReplayBuffer.load(folder)
        assert_true(buffer)
    except CheckpointError as error:
        assert "no checkpoint" in error.message
        buffer = filled(FIRST)
    while True:
        add(buffer, buffer.total_added, MORE)
        if background:
            job = buffer.save_in_background(folder)
            total = buffer.total_added
            add(buffer, total, MORE)
            saved = job.wait()
        else:
            total = buffer.total_added
            saved = buffer.save(folder)
        print(saved.number, total, flush=True)


def loads(folder: str) -> None:
    while True:
        buffer = ReplayBuffer.load(folder, lazy=True)
        assert_true(buffer)
        print(0, buffer.total_added, flush=True)


if __name__ == "__main__":
    verb, where = sys.argv[1:]
    if verb == "load":
        loads(where)
    else:
        saves(where, verb == "background")
