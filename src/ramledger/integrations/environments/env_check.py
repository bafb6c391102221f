"""Is it my environment? One environment alone in a process of its own, judged by its resets."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import IO, Any

from ramledger.diagnose.finding import Diagnosis, Finding, Kind
from ramledger.diagnose.verdict import diagnose
from ramledger.errors import ConfigError
from ramledger.events import Header
from ramledger.integrations.environments.env_exercise import GENERATIONS
from ramledger.recorder.run_recorder import RunRecorder
from ramledger.recording import RecordingWriter
from ramledger.run.model import Run
from ramledger.user_files import current_directory

CHECK_SCHEMA = "ramledger.check-env/1"
_BUDGET = 0.1  # nobody waits for this training: many snapshots
_LAST_WORDS = 2_000
_HINT = "give module:make_env or a Gymnasium id; its reset() and step() must be as Gymnasium's"


@dataclass(frozen=True, slots=True)
class EnvVerdict:
    """The result of resetting one environment repeatedly."""

    env: str
    resets: int
    steps: int
    rebuilt: bool
    recording: str
    diagnosis: Diagnosis

    @property
    def leaks(self) -> tuple[Finding, ...]:
        return tuple(found for found in self.diagnosis.findings if found.kind is Kind.LEAK)

    def per_reset(self, finding: Finding) -> float:
        """Bytes a reset."""
        return finding.bytes_per_generation * GENERATIONS / self.resets

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": CHECK_SCHEMA,
            "env": self.env,
            "resets": self.resets,
            "steps": self.steps,
            "rebuilt": self.rebuilt,
            "verdict": str(self.diagnosis.verdict),
            "bytes_per_reset": [round(self.per_reset(leak)) for leak in self.leaks],
            "recording": self.recording,
            "diagnosis": self.diagnosis.to_dict(),
        }


def check_env(
    env: str,
    recording: str,
    *,
    resets: int = 200,
    steps: int = 100,
    rebuild: bool = False,
    force: bool = False,
) -> EnvVerdict:
    """Reset `env` (module:make_env or a Gymnasium id) in a subprocess and judge its memory.

    With `rebuild` it is closed and made anew for every episode; with `force` a file that is at
    `recording` already is overwritten.
    """
    if resets < GENERATIONS or steps < 1:
        raise ConfigError(
            f"resets must be at least {GENERATIONS} and steps at least 1, got {resets} and {steps}",
            hint="ramledger check-env ENV --resets 200 --steps 100",
        )
    words = [env, str(resets), str(steps), *(["rebuild"] if rebuild else [])]
    header = Header(
        started_at=time.time(), command=("check-env", env), directory=current_directory()
    )
    recorder = RunRecorder(RecordingWriter(recording, header, force=force), every_seconds=0.1)
    with tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as errors:
        code = _exercise(words, recorder, result, errors)
        taken = _end_of(result)
        if code or not taken:
            raise ConfigError(_failure(env, code, _end_of(errors)), hint=_HINT)
    return EnvVerdict(env, resets, int(taken), rebuild, recording, diagnose(Run.read(recording)))


def _exercise(words: list[str], recorder: RunRecorder, result: IO[bytes], errors: IO[bytes]) -> int:
    """The exit code; what the environment prints is not shown."""
    fd = result.fileno()
    with subprocess.Popen(
        [sys.executable, "-m", "ramledger.integrations.environments.env_exercise", str(fd), *words],
        env=recorder.environment(os.environ, budget=_BUDGET),
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=(fd,),
    ) as process:
        recorder.start(process.pid)
        try:
            process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            code = process.wait()
            recorder.finish(max(code, 0), max(-code, 0) or None)
    return code


def _end_of(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS))
    return file.read().decode(errors="replace").strip()


def _failure(env: str, code: int, errors: str) -> str:
    if not code:
        return f"{env} ended the process before its episodes were over"
    if code < 0:
        return f"{env} failed: killed by signal {-code}"
    return f"{env} failed: {(errors.splitlines() or [f'exit code {code}'])[-1].strip()}"
