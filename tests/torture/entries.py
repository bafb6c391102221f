"""`ramledger explain PID --inside` on busy programs: each must go on as if nobody had been there.

Harm is a crash, a hang, a wrong result, a lost descriptor, or a setting that is another one after.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter

from tests.torture.tries import (
    PROGRAMS,
    PYTHON,
    Row,
    SkippedError,
    Try,
    Work,
    last_line,
    require,
    wait_for,
)

MOODS = (
    "torch", "numpy", "threads", "malloc", "imports", "long_call", "regex", "sort", "forks",
    "signals", "coroutines",
)  # fmt: skip
# what happens to the program while it is entered; most often nothing
FATES = ("goes on", "goes on", "goes on", "ends", "ends at once", "stopped")
OWN_CODE = 5


def entries(work: Work, tries: int) -> list[Row]:
    """Moods take turns, and fates within them."""
    names = [
        f"{MOODS[n % len(MOODS)]}, {FATES[n // len(MOODS) % len(FATES)]}" for n in range(tries)
    ]
    answers: Counter[str] = Counter()
    row = work.run(Row("`explain --inside` of a busy program"), names, lambda t: _enter(t, answers))
    row.remark = ", ".join(f"{count} {answer}" for answer, count in answers.most_common())
    return [row]


def _enter(current: Try, answers: Counter[str]) -> None:
    mood, _, fate = current.name.partition(", ")
    ending = "at once" if fate == "ends at once" else "return"
    target = current.start(PYTHON, PROGRAMS / "target.py", mood, ending)
    assert target.stdin is not None and target.stdout is not None
    if target.stdout.readline() != "ready\n":
        _, _, err = current.finish(target, "the program")
        raise SkippedError(last_line(err))
    time.sleep(current.random.uniform(0, 0.3))
    if fate == "stopped":
        os.kill(target.pid, signal.SIGSTOP)
        wait_for(lambda: _state(target.pid) == "T", "the program is not stopped")
    elif fate.startswith("ends"):
        # between the start of our command and its answer
        threading.Timer(current.random.uniform(0.2, 1.2), target.stdin.close).start()
    code, out, err = current.ramledger("explain", target.pid.__str__(), "--inside", "--json")
    answers[_answer(code, out, err)] += 1
    if fate == "stopped":
        require(_state(target.pid) == "T", "a stopped program was continued")
        os.kill(target.pid, signal.SIGCONT)
    _require_unharmed(current, target)


def _answer(code: int, out: str, err: str) -> str:
    if code == 0:
        return "from inside" if json.loads(out)["inside"] else "from outside"
    require(code == 1, f"ramledger explain ended with {code}")
    require(err.startswith("ramledger: ") and not out, f"no clear error: {last_line(err)}")
    return "had ended"


def _require_unharmed(current: Try, target: subprocess.Popen[str]) -> None:
    if target.stdin is not None and target.stdin.closed:
        target.stdin = None
    code, out, err = current.finish(target, "the program")
    require(code == OWN_CODE, f"it ended with {code}: {last_line(err)}")
    require(not err, f"it complains: {last_line(err)}")
    facts = json.loads(out)
    require(not facts["wrong"], f"{facts['wrong']} of {facts['rounds']} results are wrong")
    require(not facts["lost"], facts["lost"])
    require(not facts["changed"], f"changed: {', '.join(facts['changed'])}")


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0]
