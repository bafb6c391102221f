"""`kill -9` of the recorder and of the training under `ramledger run`, at any moment.

A recorder that dies leaves the training alone and a recording of whole lines; a training that dies
leaves a recording with an end, and its death is ours.
"""

import hashlib
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from ramledger.diagnose.verdict import diagnose
from ramledger.events import GenerationEvent
from ramledger.recording import Recording
from ramledger.run.model import Run
from tests.torture.tries import (
    PROGRAMS,
    PYTHON,
    RAMLEDGER,
    HarmedError,
    Row,
    Try,
    Work,
    last_line,
    require,
    wait_for,
)

GENERATIONS = 12  # of programs/training.py
OWN_CODE = 5
# the training takes less, so some kills come too late, which must be harmless too
LONGEST_SECONDS = 0.7
MOST_UNSENT = 4  # a generation of 50 ms may be on its way when the training is killed
RECORDING = "run.ledger.jsonl"


def recorders(work: Work, tries: int) -> list[Row]:
    row = Row("`kill -9` of the recorder")
    return [work.run(row, ["recorder"] * tries, _kill_recorder)]


def trainings(work: Work, tries: int) -> list[Row]:
    row = Row("`kill -9` of the training")
    return [work.run(row, ["training"] * tries, _kill_training)]


def _start(current: Try) -> tuple[subprocess.Popen[str], int]:
    """A training under a recorder, once it has begun."""
    command = [RAMLEDGER, "run", "--quiet", "--every", "0.1", "--out", RECORDING]
    with (
        (current.folder / "stdout").open("w") as stdout,
        (current.folder / "stderr").open("w") as stderr,
    ):
        recorder = current.start(
            *command, "--", PYTHON, PROGRAMS / "training.py",
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
        )  # fmt: skip
    pid = current.folder / "pid"
    wait_for(lambda: pid.exists() or recorder.poll() is not None, "the training does not begin")
    require(pid.exists(), f"no training: {last_line(_complaints(current))}")
    return recorder, int(pid.read_text())


def _kill_recorder(current: Try) -> None:
    recorder, training = _start(current)
    time.sleep(current.random.uniform(0, LONGEST_SECONDS))
    recorder.kill()
    recorder.wait()
    if recorder.returncode == -signal.SIGKILL:
        code = _adopted_code(training)
        require(code in (OWN_CODE, None), f"the training ended with {code}")
    else:
        require(recorder.returncode == OWN_CODE, f"the run ended with {recorder.returncode}")
    done = current.folder / "done"
    require(done.exists(), "the training did not reach its end")
    require(done.read_text() == _right_result(), "the result of the training is wrong")
    require("Traceback" not in _complaints(current), last_line(_complaints(current)))
    _require_readable(current.folder / RECORDING)


def _kill_training(current: Try) -> None:
    recorder, training = _start(current)
    time.sleep(current.random.uniform(0, LONGEST_SECONDS))
    is_over = (current.folder / "done").exists()
    with suppress(ProcessLookupError):
        os.kill(training, signal.SIGKILL)
    told = (current.folder / "told").read_text().splitlines(keepends=True)
    current.finish(recorder, "ramledger run")
    if recorder.returncode != OWN_CODE or not is_over:
        code = recorder.returncode
        require(code == -signal.SIGKILL, f"the run ended with {code} instead of the same death")
    require("Traceback" not in _complaints(current), last_line(_complaints(current)))
    recording = _require_readable(current.folder / RECORDING)
    require(recording.is_complete, "the recording has no end")
    _require_generations(recording, told)


def _require_generations(recording: Recording, told: list[str]) -> None:
    """All generations but the last ones, which the training had not sent yet, are recorded."""
    ended = [event.generation for event in recording.of_type(GenerationEvent)]
    numbers = [number for number in ended if isinstance(number, int)]
    require(numbers == sorted(numbers), "generations are out of order")
    if len(told) == GENERATIONS:
        return
    missing = len(told) - 1 - max(numbers, default=-1)
    require(missing <= MOST_UNSENT, f"{missing} of {len(told)} generations are not recorded")


def _require_readable(path: Path) -> Recording:
    recording = Recording.read(str(path))
    damaged = [note for note in recording.notes if "damaged" in note]
    require(not damaged, "; ".join(damaged))
    try:
        diagnose(Run.from_recording(recording))
    except Exception as error:
        raise HarmedError(f"diagnose: {error!r}") from error
    return recording


def _adopted_code(pid: int) -> int | None:
    """The exit code of a process that became our child when its parent died.

    None: it had ended, and the recorder took its code along.
    """
    found: list[int | None] = []

    def has_ended() -> bool:
        try:
            pid_found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            found.append(None)
            return True
        if pid_found:
            found.append(os.waitstatus_to_exitcode(status))
        return bool(pid_found)

    wait_for(has_ended, "the training does not end")
    return found[0]


def _complaints(current: Try) -> str:
    return (current.folder / "stderr").read_text(errors="replace")


def _right_result() -> str:
    data = b"".join(bytes([generation]) * 100_000 for generation in range(GENERATIONS))
    return hashlib.sha256(data).hexdigest()
