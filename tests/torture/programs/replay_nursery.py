"""Forks victims for `kill -9`: reads one job a line, answers with what was complete and is there.

All that a victim needs is imported once, so a try costs a fork. The nursery itself has one thread.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ramledger.replay import ReplayBuffer, download
from tests.support import replay_until_killed
from tests.support.numbered_transitions import assert_true, filled

Job = dict[str, Any]
COMPLETE: dict[str, list[list[int]]] = {}  # by folder: the number of a save and its rows


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = {"problem": TESTS[job["verb"]](job)}
        except Exception as error:
            answer = {"problem": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def killed(action: Callable[[], None], job: Job) -> list[list[int]]:
    """Fork a process that acts, and kill it; all whole lines of the processes in this folder.

    The kill comes some time after its first line, or after its start.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(writer, 1)
        # what it says in vain is for nobody, and its end is a kill
        act(action)
    os.close(writer)
    with os.fdopen(reader, "rb") as lines:
        first = b"" if job["at_once"] else lines.readline()
        time.sleep(job["seconds"])
        os.kill(child, signal.SIGKILL)
        rest = lines.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != -signal.SIGKILL:
        raise RuntimeError(f"it ended by itself with {code}: {(first + rest).decode()[-300:]}")
    whole = [line for line in (first + rest).splitlines(keepends=True) if line.endswith(b"\n")]
    complete = COMPLETE.setdefault(job["folder"], [])
    complete += [[int(number) for number in line.split()] for line in whole]
    return complete


def act(action: Callable[[], None]) -> None:
    code = 1
    try:
        action()
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.stdout)
    finally:
        sys.stdout.flush()
        os._exit(code)


def in_a_fork(action: Callable[[], None]) -> str:
    """What is wrong by `action`; it may start threads, which a nursery must not have."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(writer, 1)
        act(action)
    os.close(writer)
    with os.fdopen(reader, "r", errors="replace") as said:
        text = said.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "" if code == 0 else text.strip().rpartition("\n")[2] or f"checking ended with {code}"


def require_whole(folder: Path, complete: list[list[int]]) -> None:
    """The newest save loads exactly, and is not older than the last one that was complete."""
    if not complete and not list(folder.glob("*.json")):
        return
    loaded = ReplayBuffer.load(folder)
    assert loaded.restored is not None and not loaded.restored.lost, "rows are lost"
    assert_true(loaded)
    number, total = complete[-1] if complete else (0, 0)
    found = loaded.restored.number
    assert found >= number, f"save {found} is there, {number} was complete"
    assert loaded.total_added >= total, f"{loaded.total_added} rows, {total} were complete"


def kill_save(job: Job) -> str:
    folder = Path(job["folder"], "checkpoint")
    is_background = random.Random(job["seconds"]).random() < 0.5
    complete = killed(lambda: replay_until_killed.saves(str(folder), is_background), job)
    return in_a_fork(lambda: require_whole(folder, complete))


def kill_load(job: Job) -> str:
    folder = Path(job["folder"], "checkpoint")
    if not folder.exists():
        filled(4000).save(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    killed(lambda: replay_until_killed.loads(str(folder)), job)
    if {path.name: path.read_bytes() for path in folder.iterdir()} != before:
        return "a load has changed the checkpoint"
    return in_a_fork(lambda: require_whole(folder, [[1, 4000]]))


def kill_upload(job: Job) -> str:
    folder, bucket = Path(job["folder"], "checkpoint"), str(job["url"])
    complete = killed(lambda: replay_until_killed.uploads(str(folder), bucket), job)

    def check() -> None:
        copy = Path(job["folder"], "copy")
        try:
            if complete:
                download(bucket, copy)
                require_whole(copy, complete)
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        require_whole(folder, complete)

    return in_a_fork(check)


TESTS = {"save": kill_save, "load": kill_load, "upload": kill_upload}

if __name__ == "__main__":
    main()
