"""Disks that are full or read-only, for every file that we write.

There is a clear error, the training goes on unharmed, and nothing old is lost.
"""

import json
import shutil
import subprocess

from tests.support.places import ROOT
from tests.torture.programs.on_disk import CASES
from tests.torture.tries import PYTHON, Row, SkippedError, Try, Work, last_line, require

# as root, a namespace of mounts alone: a namespace of users would change who we are
_AS_ROOT = ("unshare", "--mount")
_AS_USER = ("unshare", "--user", "--map-root-user", "--mount")
KINDS = ("full", "read-only")


def disks(work: Work, tries: int) -> list[Row]:
    rows = []
    for kind in KINDS:
        names = [f"{case}, {kind}" for case in CASES if work.only in f"{case}, {kind}"]
        rows.append(work.run(Row(f"files on a {kind} disk"), names * tries, _one))
    return rows


def _one(current: Try) -> None:
    case, _, kind = current.name.partition(", ")
    disk = current.folder / "disk"
    disk.mkdir()
    process = current.start(
        *_unshare(str(disk)), PYTHON, "-m", "tests.torture.programs.on_disk", case, kind, str(disk),
        environment=current.environment(PYTHONPATH=str(ROOT)),
    )  # fmt: skip
    code, out, err = current.finish(process, f"the case {case}", 600)
    require(not code, f"the case ended with {code}: {last_line(err)}")
    require(not out, json.loads(out) if out.startswith('"') else out)


def _unshare(at: str) -> tuple[str, ...]:
    if shutil.which("unshare") is None:
        raise SkippedError("there is no unshare(1)")
    for way in (_AS_ROOT, _AS_USER):
        command = [*way, "mount", "-t", "tmpfs", "none", at]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return way
    raise SkippedError("disks cannot be mounted here")
