"""Saves, loads or uploads over and over until it is killed: `crash_program.py VERB FOLDER [URL]`.

VERB is save, background, load or upload. Each line it prints is one that is complete.
"""

import sys

from ramledger.errors import CheckpointError
from ramledger.replay import ReplayBuffer, upload
from tests.support.numbered_transitions import add, assert_true, filled

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


def uploads(folder: str, url: str) -> None:
    try:
        buffer = ReplayBuffer.load(folder)
    except CheckpointError:
        buffer = filled(FIRST)
    while True:
        add(buffer, buffer.total_added, MORE)
        total = buffer.total_added
        number = buffer.save(folder).number
        upload(folder, url)
        print(number, total, flush=True)


if __name__ == "__main__":
    verb, where, *rest = sys.argv[1:]
    if verb == "load":
        loads(where)
    elif verb == "upload":
        uploads(where, *rest)
    else:
        saves(where, verb == "background")
