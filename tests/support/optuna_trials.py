"""Objectives for the tests of Optuna, at the top level of a module as they have to be."""

import atexit
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import optuna

from ramledger.integrations.optuna import held_to

MIB = 1 << 20
LIMIT = 200 * MIB
KEPT: list[Any] = []


def planned(trial: optuna.Trial) -> int:
    return 30 * MIB + trial.suggest_int("mib", 1, 1000) * MIB


def hold(trial: Any) -> float:
    """Takes as much as it was told, step by step, and scores its square root."""
    wanted: int = trial.suggest_int("mib", 1, 1000)
    for at in range(0, wanted, 10):
        KEPT.append(bytearray(os.urandom(1) * (10 * MIB)))
        trial.report(at, at)
        if trial.should_prune():
            raise optuna.TrialPruned()
        time.sleep(0.002)
    trial.set_user_attr("pid", os.getpid())
    return math.sqrt(wanted)


held = held_to(LIMIT)(hold)
held_and_planned = held_to(LIMIT, plan=planned)(hold)


@held_to(LIMIT)
def decorated(trial: Any) -> float:
    return float(trial.suggest_float("x", 2.0, 2.0) + trial.number)


@held_to(LIMIT)
def with_worker(trial: Any) -> float:
    """Holds little by itself; what it started holds too much."""
    code = "import time; kept = bytearray(b'x' * (400 << 20)); time.sleep(60)"
    worker = subprocess.Popen([sys.executable, "-c", code])
    trial.set_user_attr("worker", worker.pid)
    time.sleep(60)
    return 0.0


@held_to(LIMIT)
def later_with_worker(trial: Any) -> float:
    """The first one is harmless, and the next ones are warm."""
    trial.set_user_attr("parent", os.getppid())
    return float(with_worker.held_function(trial)) if trial.number else 0.0


def look_around(trial: Any) -> float:
    """Who started it, and what it was given."""
    import numpy as np

    trial.set_user_attr("parent", os.getppid())
    trial.set_user_attr("draw", float(np.random.random()))
    trial.set_user_attr("told", os.environ.get("RAMLEDGER_TEST_TOLD"))
    trial.set_user_attr("strange", [name for name in os.environ if "FORK_SERVER" in name])
    return 0.0


looking = held_to(LIMIT)(look_around)
looking_afresh = held_to(LIMIT, warm=False)(look_around)


@held_to(LIMIT)
def leaving(trial: Any) -> float:
    """Leaves a file open that a thread still writes to, and something to do at the end."""
    folder, number = Path(os.environ["RAMLEDGER_TEST_FOLDER"]), trial.number
    kept = (folder / f"open{number}").open("w")
    KEPT.append(kept)

    def write() -> None:
        time.sleep(0.1)
        kept.write("written")

    threading.Thread(target=write).start()
    atexit.register((folder / f"exit{number}").write_text, "left")
    trial.set_user_attr("parent", os.getppid())
    return 0.0


@held_to(LIMIT)
def failing(trial: Any) -> float:
    raise ValueError("no such thing")


@held_to(LIMIT)
def vanishing(trial: Any) -> float:
    os._exit(7)


def search(path: Path, trials: int) -> None:
    """What each of several processes on one study does."""
    from ramledger.integrations.optuna import open_study

    open_study(path).optimize(decorated, n_trials=trials)
