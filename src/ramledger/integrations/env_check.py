"""Is it my environment? One environment alone in a process of its own, judged by its resets."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from ramledger.account.launch import environment_with_agent
from ramledger.account.run_recorder import RunRecorder
from ramledger.diagnose.finding import Diagnosis, Finding, Kind
from ramledger.diagnose.judge import diagnose
from ramledger.errors import ConfigError
from ramledger.integrations.env_exercise import GENERATIONS
from ramledger.recording import Recording, RecordingWriter

CHECK_SCHEMA = "ramledger.check-env/1"
_BUDGET = 0.1  # nobody waits for this training: look often
_LAST_WORDS = 2_000
_HINT = "give module:make_env or a Gymnasium id; its reset() and step() must be as Gymnasium's"


@dataclass(frozen=True, slots=True)
class EnvVerdict:
    """What resetting one environment again and again showed."""

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
    env: str, recording: str, *, resets: int = 200, steps: int = 100, rebuild: bool = False
) -> EnvVerdict:
    """Reset `env` (module:make_env or a Gymnasium id) in a subprocess and judge its memory.

    With `rebuild` it is closed and made anew for every episode.
    """
    if resets < GENERATIONS or steps < 1:
        raise ConfigError(
            f"{resets} resets of {steps} steps tell nothing",
            hint=f"at least {GENERATIONS} resets and one step",
        )
    command = [sys.executable, "-m", "ramledger.integrations.env_exercise"]
    command += [env, str(resets), str(steps), *(["rebuild"] if rebuild else [])]
    header = {"started_at": time.time(), "command": ["check-env", env], "directory": os.getcwd()}
    recorder = RunRecorder(RecordingWriter(recording, header, force=True), every_seconds=0.1)
    settings = {"recorder": recorder.socket_path, "budget": _BUDGET}
    with subprocess.Popen(
        command,
        env=environment_with_agent(os.environ, settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        recorder.start(process.pid)
        try:
            out, errors = process.communicate()
        except BaseException:
            process.kill()
            raise
        finally:
            code = process.wait()
            recorder.finish(max(code, 0), max(-code, 0) or None)
    if code:
        raise ConfigError(_failure(env, code, errors), hint=_HINT)
    steps_taken = int(out.split()[-1])
    return EnvVerdict(
        env, resets, steps_taken, rebuild, recording, diagnose(Recording.read(recording))
    )


def _failure(env: str, code: int, errors: str) -> str:
    lines = errors[-_LAST_WORDS:].strip().splitlines() or [f"exit code {code}"]
    return f"{env} failed: {lines[-1].strip()}"
