"""`train_dqn.py` in a process of its own, with the agent in it, for as long as a block lasts."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ramledger.agent.launch_environment import environment_with_agent

TRAINING = Path(__file__).with_name("train_dqn.py")


@contextmanager
def training() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, TRAINING.name],
        cwd=TRAINING.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment_with_agent(os.environ),
        start_new_session=True,  # Ctrl-C is for us; we end it below
        preexec_fn=_end_with_parent,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _end_with_parent() -> None:
    """In the training: have the kernel end it if we are gone, however that came about."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def reach(process: subprocess.Popen[str], steps: int) -> None:
    """Wait until the training has done so many steps."""
    assert process.stdout is not None
    for line in process.stdout:
        words = line.split()
        if words[:1] == ["step"] and int(words[1]) >= steps:
            return
    raise SystemExit(f"the training ended with code {process.wait()}: run {TRAINING} to see why")
