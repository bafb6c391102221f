"""`kill -9` of saves, loads and uploads of a replay checkpoint, at any moment.

What was said to be saved loads exactly, and a load changes nothing.
"""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tests.support import object_stores
from tests.support.places import ROOT
from tests.torture.tries import (
    PYTHON,
    HarmedError,
    Row,
    Try,
    Work,
    last_line,
    one_try,
    require,
)

# as long as a few saves, loads or uploads take
SAVE_SECONDS, LOAD_SECONDS, UPLOAD_SECONDS = 0.08, 0.05, 0.15
# a checkpoint is killed at so often before the next begins in an empty folder
KILLS_A_FOLDER = 25


class Nursery:
    """A process that forks one victim after the other."""

    def __init__(self, home: Try, more: Mapping[str, str]) -> None:
        # one thread, or forks would not be sound
        environment = home.environment(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", **more)
        self.home = home
        self._process = home.start(
            PYTHON, "-m", "tests.torture.programs.replay_nursery",
            environment=environment, cwd=ROOT,
        )  # fmt: skip

    def ask(self, **job: object) -> None:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            _, _, err = self.home.finish(process, "the nursery")
            raise HarmedError(f"the nursery died: {last_line(err)}")
        problem = json.loads(line)["problem"]
        require(not problem, problem)

    def close(self) -> None:
        process = self._process
        process.kill()
        process.communicate()


class Nurseries:
    """A nursery for each thread that tries."""

    def __init__(self, what: str, seed: int, more: Mapping[str, str]) -> None:
        self._what, self._seed, self._more = what, seed, more
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._all = ExitStack()
        self._count = 0

    def __enter__(self) -> "Nurseries":
        return self

    def __exit__(self, *_: object) -> None:
        self._all.close()

    def mine(self) -> Nursery:
        found: Nursery | None = getattr(self._mine, "nursery", None)
        if found is None:
            with self._lock:
                self._count += 1
                home = self._all.enter_context(one_try(self._what, self._count, self._seed))
                found = self._mine.nursery = Nursery(home, self._more)
                self._all.callback(found.close)
        return found


def saves(work: Work, tries: int) -> list[Row]:
    return [_killed(work, Row("`kill -9` of a save"), "save", tries, SAVE_SECONDS)]


def loads(work: Work, tries: int) -> list[Row]:
    return [_killed(work, Row("`kill -9` of a load"), "load", tries, LOAD_SECONDS)]


def uploads(work: Work, tries: int) -> list[Row]:
    """To a folder; some to a server that speaks S3, where there is one."""
    row = Row("`kill -9` of an upload to a folder")
    rows = [_killed(work, row, "upload", tries, UPLOAD_SECONDS)]
    row = Row("`kill -9` of an upload to S3")
    if not (object_stores.SERVERS / "bin" / "moto_server").exists():
        row.add("", "upload to S3: no server is installed, `make test` does that")
        return [*rows, row]
    with object_stores.moto() as url:
        more = object_stores.s3_at(url)
        rows.append(_killed(work, row, "upload", max(1, tries // 4), UPLOAD_SECONDS * 3, more))
    return rows


def _killed(
    work: Work,
    row: Row,
    verb: str,
    tries: int,
    seconds: float,
    more: Mapping[str, str] | None = None,
) -> Row:
    with Nurseries(verb, work.seed, more or {}) as nurseries:

        def attempt(current: Try) -> None:
            nursery = nurseries.mine()
            with _folder(nursery.home) as folder:
                url = f"s3://runs/{os.path.basename(folder)}-{nursery.home.mark}" if more else ""
                nursery.ask(
                    verb=verb, folder=folder, url=url or os.path.join(folder, "bucket"),
                    seconds=current.random.uniform(0, seconds), at_once=current.number % 4 == 0,
                )  # fmt: skip

        return work.run(row, [verb] * tries, attempt)


@contextmanager
def _folder(home: Try) -> Iterator[str]:
    """The folder of several tries in a row: each finds what the one before left."""
    counter = home.folder / "tries"
    count = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(count + 1))
    folder = home.folder / f"folder{count // KILLS_A_FOLDER}"
    folder.mkdir(exist_ok=True)
    yield str(folder)
