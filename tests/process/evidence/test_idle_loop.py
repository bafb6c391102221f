"""An idle loop under every way in: nothing grows, and nothing of ours is among the program's."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ramledger.events import GenerationEvent, SnapshotEvent
from ramledger.ledger import Statement
from ramledger.recording import Recording
from tests.support.our_names import our_parts
from tests.support.places import PROGRAMS
from tests.support.recorded_programs import COMMAND, paths_of, snapshots_of

SECONDS = "8"
RECORDED = ("run", "run with phases", "record", "record under run", "gymnasium", "sb3")
# environments of Stable-Baselines3's Monitor remember every episode: that is its growth, not ours
FRAMEWORKS_OWN = ("episode_lengths", "episode_returns", "episode_times")
IMPORTS = {
    "gymnasium": "numpy, gymnasium",
    "sb3": "numpy, gymnasium, stable_baselines3, torch._dynamo",
}
QUESTIONS = 7
LEAST_SNAPSHOTS = 3  # after the first, which loads what it needs
# the collector stops tracking most tuples when it runs: their number says nothing
NOT_COUNTED = ("tuple",)
IN_A_ROW = 5  # rises one after the other, in a program that does the same all the time


def under_run(out: Path, *options: str) -> list[str]:
    return [COMMAND, "run", "--plain", "--out", str(out), *options, "--"]


def command(way: str, folder: Path) -> list[str]:
    out, other = folder / "idle.ledger.jsonl", str(folder / "unused.ledger.jsonl")
    program = [sys.executable, str(PROGRAMS / "idle_loop.py")]
    if way == "run":
        return [*under_run(out), *program, "bare", SECONDS]
    if way == "run with phases":
        phases = ("--phase", "work", "--phase", "rest", "--expect", "Idler=1")
        return [*under_run(out, *phases), *program, "bare", SECONDS]
    if way == "record under run":
        return [*under_run(out), *program, "record", SECONDS, other]
    return [*program, way, SECONDS, str(out)]


@dataclass(frozen=True)
class Idle:
    """The snapshots of one idle run, without the one at the end, and what was printed."""

    way: str
    recording: Recording
    snapshots: list[SnapshotEvent]
    diagnosis: dict[str, Any]
    log: str
    output: str

    def series(self, number: Mapping[str, list[int]]) -> dict[str, list[int]]:
        return {name: counts for name, counts in number.items() if is_growing(counts)}


def is_growing(counts: list[int]) -> bool:
    """One more a snapshot for good, or in a row until the garbage collector takes them."""
    settled = counts[1:]
    if len(settled) < LEAST_SNAPSHOTS:
        return False
    half = len(settled) // 2
    for_good = (
        half > 0
        and settled[-1] - settled[0] >= len(settled) - 1
        and min(settled[half:]) > max(settled[:half])
    )
    stretches = zip(*(settled[skipped:] for skipped in range(IN_A_ROW + 1)), strict=False)
    in_a_row = any(all(a < b for a, b in pairwise(stretch)) for stretch in stretches)
    return for_good or in_a_row


@pytest.fixture(scope="module", params=RECORDED)
def idle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Idle:
    folder = tmp_path_factory.mktemp("idle")
    arguments = command(request.param, folder)
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    path = str(folder / "idle.ledger.jsonl")
    judged = subprocess.run([COMMAND, "diagnose", "--json", path], capture_output=True, text=True)
    recording = Recording.read(path)
    return Idle(
        request.param,
        recording,
        snapshots_of(recording),
        json.loads(judged.stdout),
        done.stderr,
        done.stdout,
    )


def test_there_are_snapshots_to_compare(idle: Idle) -> None:
    """Callbacks take one where memory grows: an idle loop has the first alone."""
    assert len(idle.snapshots) >= (1 if idle.way in IMPORTS else 4)


def test_no_type_of_object_grows(idle: Idle) -> None:
    counted = [one.live_objects for one in idle.snapshots if getattr(one, "live_objects", None)]
    names = set().union(*counted)
    series = {name: [one[name] for one in counted if name in one] for name in names}
    assert not idle.series(series)


def test_tracked_objects_do_not_grow(idle: Idle) -> None:
    counts = [one.tracked_objects for one in idle.snapshots if getattr(one, "tracked_objects", 0)]
    assert not is_growing(counts)


def test_no_container_grows(idle: Idle) -> None:
    series: dict[str, list[int]] = {}
    for snapshot in idle.snapshots:
        for one in snapshot.containers:
            if not one.path.endswith(FRAMEWORKS_OWN):
                series.setdefault(one.path, []).append(one.length)
    assert series
    assert not idle.series(series)


def test_no_owner_grows(idle: Idle) -> None:
    series: dict[str, list[int]] = {}
    for snapshot in idle.snapshots:
        for entry in snapshot.statement.entries:
            if entry.source.value in ("path", "recognized", "claim"):
                series.setdefault(entry.account, []).append(entry.resident_bytes // 65_536)
    assert not idle.series(series)


def test_nothing_of_ours_is_named_as_the_programs(idle: Idle) -> None:
    ours = {
        name: our_parts(name)
        for snapshot in idle.snapshots
        for name in names_in(snapshot)
        if not is_our_account(name)
    }
    assert not {name: parts for name, parts in ours.items() if parts}


def test_our_counters_are_not_counted(idle: Idle) -> None:
    """As many as the program's imports make where ramledger is not loaded, and no more."""
    counted = {
        one.live_objects.get("collections.Counter", 0)
        for one in idle.snapshots
        if getattr(one, "live_objects", None)
    }
    assert max(counted, default=0) <= counters_without_us(IMPORTS.get(idle.way, "numpy"))


@cache
def counters_without_us(imports: str) -> int:
    code = (
        f"import {imports}, collections, gc, sys\n"
        "assert 'ramledger' not in sys.modules\n"
        "print(sum(type(one) is collections.Counter for one in gc.get_objects()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_the_programs_class_is_counted(idle: Idle) -> None:
    counted = [one.live_objects for one in idle.snapshots if getattr(one, "live_objects", None)]
    assert all(one.get("__main__.Idler", 1) == 1 for one in counted)
    assert idle.way in IMPORTS or "__main__.Idler" in counted[-1]


def test_nothing_is_found(idle: Idle) -> None:
    assert idle.diagnosis["verdict"] != "leak"
    assert not [one for one in idle.diagnosis["findings"] if one["kind"] != "warm-up"]


def test_the_summary_has_no_growing_objects(idle: Idle) -> None:
    growth = idle.log.partition("\ngrowth from")[2]
    rows = re.findall(r"^  (\S.*?)  +[\d,-]+  +[\d,-]+  +([+-][\d,]+)$", growth, re.M)
    changed = [(name, change) for name, change in rows if change != "+0"]
    assert not [row for row in changed if row[0] not in NOT_COUNTED]
    assert "containers  " not in growth


def test_the_log_prints_a_line_every_few_seconds(idle: Idle) -> None:
    """However fast the loop is: 200 passes in 8 seconds are no 200 lines."""
    lines = re.findall(r"^ramledger: (?:iteration|generation) \d+", idle.log, re.M)
    assert len(lines) <= 2 + int(SECONDS) / 2


def test_phases_that_were_named_number_the_iterations(idle: Idle) -> None:
    """Every call of `work`, and of `rest` within it, is one pass through both."""
    if idle.way == "run with phases":
        passes = int(idle.output.split()[-1])
        counted = sum(event.passes for event in idle.recording.of_type(GenerationEvent))
        assert counted == pytest.approx(passes, abs=2)


def names_in(snapshot: SnapshotEvent) -> Iterator[str]:
    yield from paths_of(snapshot)
    for one in snapshot.containers:
        yield from (one.type, one.of, one.account, *one.added_in)
    yield from (one.type for one in snapshot.statement.types)
    for field in ("live_objects", "first_live_objects", "user_classes", "record_classes"):
        yield from getattr(snapshot, field, ())
    for field in ("frame_holders", "watched_paths", "pinned_by_views"):
        yield from getattr(snapshot, field, {})


def is_our_account(name: str) -> bool:
    return name.partition("/")[0] in ("ramledger", "python")


# ---- a process that is entered while it runs ------------------------------------------------


@pytest.fixture(scope="module")
def answers() -> Iterator[list[Statement]]:
    """What an idle process says that is asked several times, watched in between."""
    program = [sys.executable, str(PROGRAMS / "idle_loop.py"), "bare", "600"]
    process = subprocess.Popen(program, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        found = []
        for _ in range(QUESTIONS):
            said = ask("explain", str(process.pid), "--inside", "--json")
            found.append(Statement.from_dict(said))
            ask("watch", str(process.pid), "--once", "--json")
        yield found
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def ask(*arguments: str) -> Any:
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_entered_no_type_grows(answers: list[Statement]) -> None:
    tables = [{one.type: one.count for one in answer.types} for answer in answers]
    names = set().union(*tables)
    series = {name: [table[name] for table in tables if name in table] for name in names}
    assert not {name: counts for name, counts in series.items() if is_growing(counts)}


def test_entered_owners_keep_their_names_and_bytes(answers: list[Statement]) -> None:
    owners = [
        {one.account: one.resident_bytes for one in answer.entries if one.source.value == "path"}
        for answer in answers
    ]
    large = [{name for name, size in one.items() if size > 1 << 20} for one in owners]
    assert large[0]
    assert all(one == large[0] for one in large), large


def test_entered_nothing_of_ours_is_the_programs(answers: list[Statement]) -> None:
    names = {
        name
        for answer in answers
        for name in (
            *(one.account for one in answer.entries if not is_our_account(one.account)),
            *(one.path for one in answer.large_objects),
            *(one.type for one in answer.types),
        )
    }
    assert not {name: our_parts(name) for name in names if our_parts(name)}


def test_entered_once_ours_does_not_grow(answers: list[Statement]) -> None:
    sizes = [answer.total("ramledger") // 65_536 for answer in answers]
    assert not is_growing(sizes)
