"""`make demo`: where the RAM of a real training goes, from outside, from inside and from Python.

Starts two small trainings, looks at them with the real command, and ends them again.
"""

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
COMMAND = Path(sys.executable).with_name("ramledger")
STEPS = 1_000

PYTHON_EXAMPLE = """\
import numpy as np
import ramledger

ledger = ramledger.record()
replay = np.zeros((20_000, 84, 84), np.uint8)   # reserved; no page of it is resident yet
ledger.claim("replay", replay)                  # this name, for as long as it lives
ledger.snapshot("empty")
replay[:10_000] = 255                           # half of it is written
print(ledger.growth(since="empty"))
entry = ledger.snapshot("half full").get("replay")
print(f"replay: {entry.resident_bytes:,} of {entry.reserved_bytes:,} bytes are resident")
"""


def main() -> None:
    signal.signal(signal.SIGINT, stop)
    show()


def stop(*_: object) -> None:
    """On Ctrl-C: end at once, wherever we are; the kernel ends the trainings with us."""
    print("\ninterrupted; the trainings are ended too", file=sys.stderr, flush=True)
    os._exit(130)


def show() -> None:
    say("ramledger: where the RAM of a reinforcement-learning run goes\n")
    say(f"Two trainings start, {TRAINING.name} as it is: DQN with a replay buffer.")
    say("One of them has ramledger's agent in it, by an environment variable. Wait for step 1000 …")
    with training() as plain, training(agent=True) as agent:
        reach(plain, STEPS)
        reach(agent, STEPS)

        title("1. From outside: any process, no code change, nothing started in it")
        ramledger("explain", plain.pid, "--top", 8)

        title("2. Entered while it trains: --inside names the objects that own the memory")
        ramledger("explain", plain.pid, "--inside", "--top", 10)

        title("3. With the agent there from the start, what imports cost has names as well")
        ramledger("explain", agent.pid, "--top", 12)

    title("4. From Python")
    say("".join(f"    {line}\n" for line in PYTHON_EXAMPLE.splitlines()))
    exec(compile(PYTHON_EXAMPLE, "demo.py", "exec"), {})
    say("\nBoth trainings are ended. Next: ramledger explain PID, with a PID of your own.")


@contextmanager
def training(*, agent: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A training in a process of its own, which ends with the block."""
    environment = environment_with_agent(os.environ) if agent else dict(os.environ)
    with subprocess.Popen(
        [sys.executable, TRAINING.name],
        cwd=TRAINING.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
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


def ramledger(*arguments: str | int) -> None:
    words = [str(argument) for argument in arguments]
    say(f"$ ramledger {' '.join(words)}\n")
    done = subprocess.run([COMMAND, *words], check=False)
    if done.returncode:
        raise SystemExit(f"ramledger ended with code {done.returncode}")


def title(text: str) -> None:
    say(f"\n== {text} ==\n")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
