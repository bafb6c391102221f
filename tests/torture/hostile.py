"""Programs that make it hard to be watched: each runs alone, under `ramledger run`, and entered.

The exit code, the output and the complaints must be the same each time, and `ramledger diagnose`
has an answer to every recording.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ramledger.errors import RecordingError
from ramledger.events import NoteEvent, RunEndEvent, SnapshotEvent
from ramledger.recording import Recording
from tests.torture.tries import (
    PROGRAMS,
    PYTHON,
    RAMLEDGER,
    Row,
    SkippedError,
    Try,
    Work,
    last_line,
    require,
    wait_for,
)

HOSTILE = PROGRAMS / "hostile"
RECORDING = "run.ledger.jsonl"
# long enough for several looks, and for an entry
SECONDS, ENTERED_SECONDS = 1.2, 2.5
ABSENT = 77  # what a program needs is not here

RUN, ENTER = "under run", "entered"


@dataclass(frozen=True)
class Hostile:
    """One program and what is known about it."""

    program: str
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: str = ""  # of the shell that starts everything, as in `ulimit -n 10`
    is_nested: bool = False  # run under a run
    can_be_entered: bool = True
    is_seen: bool = False  # there is an agent, and enough time for a snapshot
    is_for_root: bool = False
    keeps_recording: bool = True
    has_end: bool = True  # the recording; not where there is no room for all of it

    @property
    def name(self) -> str:
        words = (*self.flags, self.program, *self.arguments, self.limits)
        return " ".join(filter(None, words)) + " twice" * self.is_nested


_ENDINGS = ("at once", "segfault", "abort", "kill", "term", "atexit", "thread", "raises")
_FLAGS = ("-I", "-S", "-E", "-P", "-u", "-OO", "-Wd", "-Xdev", "-Xtracemalloc", "-Xutf8")

CASES = (
    Hostile("forks", can_be_entered=False),
    Hostile("daemonizes", can_be_entered=False),
    Hostile("closes_all"),
    Hostile("closes_high"),
    Hostile("execs"),
    *(Hostile("flags", flags=(flag,)) for flag in _FLAGS),
    Hostile("customized_program", environment={"PYTHONPATH": str(HOSTILE / "customized")}),
    Hostile("subinterpreters"),
    Hostile("greenlets"),
    Hostile("traces"),
    Hostile("collector"),
    *(Hostile("ends", (way,), can_be_entered=way == "at once") for way in _ENDINGS),
    Hostile("limits", ("memory",)),
    Hostile("limits", ("files",)),
    Hostile("clocks"),
    Hostile("handlers"),
    Hostile("loop"),
    Hostile("pools", can_be_entered=False),
    Hostile("threads"),
    Hostile("half_built"),
    Hostile("resizes"),
    Hostile("odd_classes", is_seen=True),
    Hostile("fake_libraries", is_seen=True),
    Hostile("lazy_module", is_seen=True),
    Hostile("deep", is_seen=True),
    Hostile("long_names", is_seen=True),
    Hostile("many_objects", is_seen=True),
    Hostile("recursion"),
    Hostile("no_output", ("object",)),
    Hostile("no_output", ("number",)),
    Hostile("many_lines", can_be_entered=False),
    Hostile("deletes", keeps_recording=False),
    Hostile("other_user", ("user",), is_for_root=True),
    Hostile("other_user", ("root",), is_for_root=True),
    Hostile("other_user", ("namespaces",), is_for_root=True),
    Hostile("patches"),
    Hostile("stops", can_be_entered=False),
    Hostile("storms"),
    Hostile("finalizers"),
    Hostile("records"),
    Hostile("flags", limits="ulimit -n 10", can_be_entered=False),
    Hostile("flags", limits="ulimit -v 200000", can_be_entered=False),
    Hostile("flags", limits="ulimit -f 8", can_be_entered=False, has_end=False),
    Hostile("forks", is_nested=True, can_be_entered=False),
)
_BY_NAME = {case.name: case for case in CASES}


def programs(work: Work, tries: int) -> list[Row]:
    cases = [case for case in CASES if work.only in case.name] * tries
    under_run = [case.name for case in cases]
    rows = [work.run(Row("hostile programs under `run`"), under_run, _under_run)]
    entered = [case.name for case in cases if case.can_be_entered]
    rows.append(work.run(Row("hostile programs, entered with `--inside`"), entered, _entered))
    if work.only in "memory_hog":
        row = Row("a program that the kernel ends for memory")
        rows.append(work.run(row, ["memory_hog"] * tries, _out_of_memory))
    return rows


@dataclass(frozen=True)
class Result:
    """How a program ended and what it said."""

    code: int
    out: str
    err: str


def _under_run(current: Try) -> None:
    case = _BY_NAME[current.name]
    plain = _plain(current, case)
    command: tuple[str, ...] = (RAMLEDGER, "run", "--quiet", "--every", "0.1")
    command = (*command, "--out", RECORDING, "--")
    if case.is_nested:
        inner = ("--quiet", "--out", "inner.ledger.jsonl")
        command = (*command, RAMLEDGER, "run", *inner, "--")
    watched = _run(current, case, command, SECONDS, "the program under ramledger")
    _require_same(plain, watched)
    if not case.keeps_recording:
        return
    code, _, err = current.ramledger("diagnose", RECORDING)
    require(code in (0, 3), f"diagnose ended with {code}: {last_line(err)}")
    recording = _read(current.folder / RECORDING)
    require(recording.is_complete or not case.has_end, "the recording has no end")
    if case.is_seen:
        _require_seen(recording)


def _entered(current: Try) -> None:
    case = _BY_NAME[current.name]
    plain = _plain(current, case)
    environment = _environment(current, case, ENTERED_SECONDS)
    process = current.start(*_command(case), environment=environment)
    time.sleep(current.random.uniform(0.6, 1.0))
    code, out, err = current.ramledger("explain", str(process.pid), "--inside", "--json")
    if code:
        require(err.startswith("ramledger: "), f"no clear error: {last_line(err)}")
    elif out:
        json.loads(out)
    entered = Result(*current.finish(process, "the entered program"))
    _require_same(plain, entered)


def _plain(current: Try, case: Hostile) -> Result:
    if case.is_for_root and os.geteuid():
        raise SkippedError("only root may do that")
    plain = _run(current, case, (), 0.3, "the program alone")
    if plain.code == ABSENT:
        raise SkippedError("what it needs is not on this machine")
    require("OK" in plain.out + plain.err, f"alone it says {plain.out} {last_line(plain.err)}")
    _clear(current.folder)
    return plain


def _clear(folder: Path) -> None:
    """Leave nothing of one run to the next."""
    for path in folder.iterdir():
        if path.is_file() or path.is_socket():
            path.unlink()
    with contextlib.suppress(OSError):
        (folder / "jail").rmdir()


def _command(case: Hostile) -> list[str]:
    script = str(HOSTILE / f"{case.program}.py")
    return [PYTHON, *case.flags, script, *case.arguments]


def _environment(current: Try, case: Hostile, seconds: float) -> dict[str, str]:
    return current.environment(TORTURE_SECONDS=str(seconds), **case.environment)


def _run(current: Try, case: Hostile, before: Sequence[str], seconds: float, what: str) -> Result:
    """Its streams are files, so that a process it leaves behind holds nobody up."""
    paths = {name: current.folder / f"{name}.txt" for name in ("stdout", "stderr")}
    with contextlib.ExitStack() as files:
        streams = {name: files.enter_context(path.open("w")) for name, path in paths.items()}
        shell = ("sh", "-c", f'{case.limits}; exec "$@"', "-") if case.limits else ()
        process = current.start(
            *shell, *before, *_command(case),
            environment=_environment(current, case, seconds), **streams,
        )  # fmt: skip
    code = current.finish(process, what)[0]
    return Result(code, *(path.read_text(errors="replace") for path in paths.values()))


def _require_same(plain: Result, watched: Result) -> None:
    complaints = "".join(line for line in watched.err.splitlines(True) if not _is_ours(line))
    require("Traceback" in plain.err or "Traceback" not in complaints, _first_trouble(complaints))
    if watched.out != plain.out:
        require(False, f"says {_short(watched.out)} instead of {_short(plain.out)}")
    require(
        watched.code == plain.code,
        f"ends with {watched.code} instead of {plain.code}: {last_line(watched.err)}",
    )
    require(complaints == plain.err, f"complains: {_short(complaints)}")


def _is_ours(line: str) -> bool:
    return line.startswith(("ramledger: ", "  hint: "))


def _first_trouble(text: str) -> str:
    lines = [line for line in text.splitlines() if line and not line.startswith(" ")]
    return next((line for line in lines if "Error" in line), last_line(text))[:300]


def _short(text: str) -> str:
    if len(text) < 300:
        return repr(text)
    return f"{text[:200]!r}… ({len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()})"


def _require_seen(recording: Recording) -> None:
    """A snapshot was taken, or it is said why not."""
    if any(True for _ in recording.of_type(SnapshotEvent)):
        return
    notes = [str(event.text) for event in recording.of_type(NoteEvent)]
    require(any("snapshot" in note for note in notes), "no snapshot, and nobody says why")


def _read(path: Path) -> Recording:
    try:
        return Recording.read(str(path))
    except RecordingError as error:
        require(False, error.message)
        raise


# ---- killed by the kernel ----------------------------------------------------------------------

_LIMIT_BYTES = 150 << 20


def _out_of_memory(current: Try) -> None:
    with _control_group(current.folder.name) as group:
        environment = _environment(current, Hostile("memory_hog"), SECONDS)
        script = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
        command = (RAMLEDGER, "run", "--quiet", "--out", RECORDING, "--")
        process = current.start(
            "sh", "-c", script, "-", *command, *_command(Hostile("memory_hog")),
            environment=environment,
        )  # fmt: skip
        code, out, err = current.finish(process, "a program without memory")
    require(code == -9, f"ends with {code}: {last_line(err)}")
    require(out == "OK\n", f"says {_short(out)}")
    recording = _read(current.folder / RECORDING)
    ends = list(recording.of_type(RunEndEvent))
    require(ends and ends[-1].killed_by_kernel, "the recording does not say who killed it")
    code, _, err = current.ramledger("diagnose", RECORDING)
    require(code in (0, 3), f"diagnose ended with {code}: {last_line(err)}")


@contextlib.contextmanager
def _control_group(name: str) -> Iterator[Path]:
    """A group that may use little memory, of version 2 or 1."""
    for root, limit in (
        ("/sys/fs/cgroup", "memory.max"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ):
        group = Path(root, name)
        try:
            if not Path(root, "cgroup.procs").exists():
                continue
            group.mkdir()
            with (group / limit).open("r+") as file:
                file.write(str(_LIMIT_BYTES))
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        try:
            yield group
        finally:
            wait_for(partial(_is_gone, group), "the control group is in use", 30)
        return
    raise SkippedError("no control group can be made here")


def _is_gone(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
