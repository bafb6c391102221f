"""One case on a disk that says no: `on_disk.py CASE full|read-only DISK`, in a mount namespace.

Prints what is wrong, or nothing. The disk is a small one in memory that only this process sees.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

RAMLEDGER = str(Path(sys.executable).with_name("ramledger"))
ROOM = "size=24m"
TRAINING = """
import os, sys, time
for generation in range(12):
    sum(range(100_000)); time.sleep(0.08)
    if generation == 4 and len(sys.argv) > 1:
        with open(sys.argv[1], "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)): pass
            except OSError: pass
open("done", "w").write("done")
sys.exit(5)
"""
TRAINER = ("--population", "4", "--updates", "4", "--env", "Pendulum-v1", "--quiet")


class Disk:
    """A mounted disk and what can happen to it."""

    def __init__(self, kind: str, path: str) -> None:
        self.kind, self.path = kind, Path(path)
        _mount("-t", "tmpfs", "-o", ROOM, "none", path)

    def refuse(self) -> None:
        """From now on nothing can be written."""
        if self.kind == "read-only":
            _mount("-o", "remount,ro", str(self.path))
        else:
            self.fill()

    def fill(self) -> None:
        try:
            with (self.path / "filler").open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
        except OSError:
            pass

    def allow(self) -> None:
        if self.kind == "read-only":
            _mount("-o", "remount,rw", str(self.path))
        else:
            (self.path / "filler").unlink()

    def files(self) -> dict[str, bytes]:
        """All but the filler, without locks and sockets."""
        found = (path for path in sorted(self.path.rglob("*")) if path.is_file())
        return {str(p): p.read_bytes() for p in found if p.name not in ("filler", "writer.lock")}


def _mount(*options: str) -> None:
    subprocess.run(["mount", *options], check=True)


def ramledger(
    *arguments: str | Path, stdout: Path | None = None, more: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Exit code and complaints of our command; a traceback is never right."""
    output = stdout.open("w") if stdout is not None else subprocess.DEVNULL
    done = subprocess.run(
        [RAMLEDGER, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=output,
        stderr=subprocess.PIPE, text=True, timeout=150, env={**os.environ, **(more or {})},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr.strip().rpartition("\n")[2]
    return done.returncode, done.stderr


def refused(*arguments: str | Path, stdout: Path | None = None) -> None:
    """Our command fails with a line that names the reason."""
    code, err = ramledger(*arguments, stdout=stdout)
    assert code == 1, f"{arguments[0]} ended with {code}: {err.strip()[-200:]}"
    reasons = ("No space left", "no space left", "Read-only file system", "read-only file system")
    assert err.startswith("ramledger: "), f"no clear error: {err[-300:]}"
    assert any(reason in err for reason in reasons), f"no reason is given: {err[-300:]}"


def recorded(disk: Disk, name: str = "old.ledger.jsonl") -> Path:
    path = disk.path / name
    code, err = ramledger("run", "--quiet", "--out", path, "--", *training())
    assert code == 5, err
    return path


def training(*arguments: str) -> list[str]:
    return [sys.executable, "-c", TRAINING, *arguments]


def ran() -> bool:
    """Whether the training has reached its end; asked once a training."""
    is_done = Path("done").exists()
    Path("done").unlink(missing_ok=True)
    return is_done


# ---- the cases ---------------------------------------------------------------------------------


def recording(disk: Disk) -> None:
    """A recording that cannot be begun is an error before the training begins."""
    disk.refuse()
    refused("run", "--quiet", "--out", disk.path / "new.ledger.jsonl", "--", *training())
    assert not ran(), "the training ran without a recording"


def recording_on_the_way(disk: Disk) -> None:
    """A disk that fills up ends the recording, not the training."""
    path = disk.path / "run.ledger.jsonl"
    filler = (str(disk.path / "filler"),) if disk.kind == "full" else ()
    code, err = ramledger("run", "--quiet", "--out", path, "--", *training(*filler))
    assert (code, ran()) == (5, True), f"the training ended with {code}: {err[-300:]}"
    code, err = ramledger("diagnose", path)
    assert code in (0, 3), err


def recording_again(disk: Disk) -> None:
    """`--force` on a disk that says no: the old recording, or a new one, never none."""
    path = recorded(disk)
    ran()
    disk.refuse()
    code, err = ramledger("run", "--quiet", "--force", "--out", path, "--", *training())
    assert (code, ran()) in ((5, True), (1, False)), f"ended with {code}: {err[-300:]}"
    code, err = ramledger("diagnose", path)
    assert code in (0, 3), f"no recording is left: {err}"


def page(disk: Disk) -> None:
    path = recorded(disk)
    ramledger("report", path)
    disk.refuse()
    before = disk.files()
    refused("report", path)
    refused("report", path, "--out", disk.path / "other.html")
    assert disk.files() == before, "files have changed"


def picture(disk: Disk) -> None:
    path = disk.path / "old.svg"
    code, err = ramledger("explain", str(os.getpid()), "--svg", path)
    assert code == 0, err
    disk.refuse()
    before = disk.files()
    refused("explain", str(os.getpid()), "--svg", path)
    refused("explain", str(os.getpid()), "--svg", disk.path / "new.svg")
    assert disk.files() == before, "files have changed"


def output(disk: Disk) -> None:
    """Documents on stdout, where there is no room."""
    path = recorded(disk)
    Path("plan.toml").write_text('algorithm = "PPO"\nenv = "CartPole-v1"\n')
    buffer_in(Path("checkpoint"), 100)
    out = Path("/dev/full")
    pid = str(os.getpid())
    refused("explain", pid, "--json", stdout=out)
    refused("diagnose", path, "--json", stdout=out)
    refused("report", path, "--json", stdout=out)
    refused("plan", "plan.toml", "--json", stdout=out)
    refused("replay", "inspect", "checkpoint", "--json", stdout=out)
    refused("watch", pid, "--once", "--json", stdout=out)
    for option in ("--json", "--log-json"):
        ran()
        new = ("--out", f"{option.strip('-')}.ledger.jsonl")
        code, err = ramledger("run", option, *new, "--", *training(), stdout=out)
        assert ran(), f"the training did not run: {err[-300:]}"
        assert code in (1, 5), f"run ended with {code}: {err[-300:]}"


def streams(disk: Disk) -> None:
    """What `run` has to say finds no room; the training has its own exit code."""
    disk.refuse()
    for options in ((), ("--quiet",), ("--plain",)):
        with open("/dev/full", "w") as full:
            command = [RAMLEDGER, "run", *options, "--force", "--out", "run.ledger.jsonl", "--"]
            done = subprocess.run([*command, *training()], stdout=full, stderr=full, timeout=150)
        assert (done.returncode, ran()) == (5, True), f"ended with {done.returncode}"


def buffer_in(folder: Path, count: int) -> None:
    from tests.support.numbered_transitions import filled

    filled(count, 6000).save(folder)


def checkpoint(disk: Disk) -> None:
    from ramledger.errors import CheckpointError
    from ramledger.replay import ReplayBuffer
    from tests.support.numbered_transitions import add, assert_true, filled

    buffer = filled(2000, 6000)
    buffer.save(disk.path / "saves")
    disk.refuse()
    before = disk.files()
    add(buffer, 2000, 3000)
    for save in (
        lambda: buffer.save(disk.path / "saves"),
        lambda: buffer.save_in_background(disk.path / "saves").wait(),
        lambda: buffer.save(disk.path / "others"),
    ):
        raises(CheckpointError, save)
    assert disk.files() == before, "files have changed"
    assert_true(ReplayBuffer.load(disk.path / "saves"))
    disk.allow()
    buffer.save(disk.path / "saves")
    loaded = ReplayBuffer.load(disk.path / "saves")
    assert_true(loaded)
    assert loaded.total_added == 5000, "rows are missing"


def raises(kind: type[Exception], action: Callable[[], object]) -> None:
    try:
        action()
    except kind as error:
        assert getattr(error, "hint", ""), f"no hint: {error}"
    else:
        raise AssertionError("it did not fail")


def rows(disk: Disk) -> None:
    """Rows in mapped files: a disk without room is an error at once, not a signal later."""
    from ramledger.errors import RamledgerError
    from ramledger.replay import ReplayBuffer
    from ramledger.replay.storage.backing import Folder
    from tests.support.numbered_transitions import SCHEMA, add

    def fill() -> None:
        buffer = ReplayBuffer(SCHEMA, 6000, backing=Folder(disk.path / "rows"))
        add(buffer, 0, 6000)

    disk.refuse()
    child = os.fork()
    if child == 0:
        try:
            fill()
        except RamledgerError as error:
            os._exit(0 if error.hint else 2)
        os._exit(3)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code != -signal.SIGBUS, "the training is killed by SIGBUS"
    assert code == 0, {2: "the error has no hint", 3: "it did not fail"}.get(code, f"code {code}")


def upload(disk: Disk) -> None:
    from ramledger.errors import CheckpointError
    from ramledger.replay import ReplayBuffer, download
    from ramledger.replay import upload as send
    from tests.support.numbered_transitions import assert_true

    bucket = disk.path / "bucket"
    buffer_in(Path("checkpoint"), 1000)
    send("checkpoint", str(bucket))
    disk.refuse()
    before = disk.files()
    loaded = ReplayBuffer.load("checkpoint")
    from tests.support.numbered_transitions import add

    add(loaded, 1000, 3000)
    loaded.save("checkpoint")
    raises(CheckpointError, lambda: send("checkpoint", str(bucket)))
    raises(CheckpointError, lambda: download(str(bucket), disk.path / "copy"))
    kept = {name: data for name, data in disk.files().items() if name in before}
    assert kept == before, "what was there has changed"
    download(str(bucket), "copy")
    assert_true(ReplayBuffer.load("copy"))
    disk.allow()
    send("checkpoint", str(bucket))
    download(str(bucket), "copy2")
    found = ReplayBuffer.load("copy2")
    assert_true(found)
    assert found.total_added == 4000, "rows are missing"


def export(disk: Disk) -> None:
    buffer_in(Path("checkpoint"), 1000)
    for suffix in ("npz", "h5", "parquet"):
        ramledger("replay", "export", "checkpoint", disk.path / f"old.{suffix}")
    disk.refuse()
    before = disk.files()
    for suffix in ("npz", "h5", "parquet"):
        refused("replay", "export", "checkpoint", disk.path / f"old.{suffix}", "--force")
        refused("replay", "export", "checkpoint", disk.path / f"new.{suffix}")
    assert disk.files() == before, "files have changed"


def trainer(disk: Disk) -> None:
    folder = disk.path / "train"
    code, err = ramledger("train", *TRAINER, "--generations", "1", "--out", folder)
    assert code == 0, err
    actor = disk.path / "best.npz"
    code, err = ramledger("train", "export", folder, actor)
    assert code == 0, err
    disk.refuse()
    before = disk.files()
    refused("train", *TRAINER, "--generations", "2", "--out", folder, "--resume")
    refused("train", "export", folder, actor, "--force")
    # the recording and the scalars are appended to as far as they go
    kept = {n: d for n, d in before.items() if not n.endswith((".jsonl", ".html", ".vm"))}
    now = disk.files()
    lost = [name for name, data in kept.items() if "tfevents" not in name and now[name] != data]
    assert not lost, f"changed: {lost}"
    disk.allow()
    code, err = ramledger("train", *TRAINER, "--generations", "2", "--out", folder, "--resume")
    assert code == 0, f"it cannot go on: {err[-300:]}"


def calibration(disk: Disk) -> None:
    Path("plan.toml").write_text('algorithm = "PPO"\nenv = "CartPole-v1"\n')
    disk.refuse()
    before = disk.files()
    cache = {"XDG_CACHE_HOME": str(disk.path / "cache")}
    code, err = ramledger("plan", "plan.toml", "--calibrate", more=cache)
    assert code in (0, 1, 3), err
    assert code != 1 or err.startswith("ramledger: "), err
    assert disk.files() == before, "a draft was left"


def sockets(disk: Disk) -> None:
    """No place for sockets: measured from outside, and the training is as it was."""
    fallback = Path(f"/tmp/ramledger-{os.geteuid()}")
    fallback.mkdir(mode=0o700, exist_ok=True)
    option = "ro" if disk.kind == "read-only" else "nr_inodes=1"
    for place in (fallback, disk.path):
        _mount("-t", "tmpfs", "-o", option, "none", str(place))
    runtime = {"XDG_RUNTIME_DIR": str(disk.path)}
    code, err = ramledger(
        "run", "--quiet", "--out", "r.ledger.jsonl", "--", *training(), more=runtime
    )
    assert (code, ran()) == (5, True), f"the training ended with {code}: {err[-300:]}"
    with subprocess.Popen(training(), env={**os.environ, **runtime}, stderr=-1) as process:
        time.sleep(0.6)
        code, err = ramledger("explain", str(process.pid), "--inside", more=runtime)
        complaints = process.communicate(timeout=60)[1]
    assert (process.returncode, complaints) == (5, b""), (process.returncode, complaints)
    assert code == 0, f"explain ended with {code}: {err[-300:]}"


CASES = {
    case.__name__: case
    for case in (
        recording,
        recording_on_the_way,
        recording_again,
        page,
        picture,
        output,
        streams,
        checkpoint,
        rows,
        upload,
        export,
        trainer,
        calibration,
        sockets,
    )
}


if __name__ == "__main__":
    name, kind, path = sys.argv[1:]
    try:
        CASES[name](Disk(kind, path))
    except AssertionError as error:
        print(json.dumps(str(error)))
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"))
