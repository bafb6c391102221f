"""Trials forked from a server with their libraries loaded: as good as fresh ones, or not at all."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import optuna
import pytest

from ramledger.integrations.optuna import ENDED, PEAK
from ramledger.integrations.trials import fork_server, trial_process
from ramledger.integrations.trials.warm_start import Warmth
from ramledger.recorder.tree_limit import interval_seconds
from tests.support import optuna_trials as trials
from tests.support.places import ROOT
from tests.support.waiting import wait_until

MIB = 1 << 20
optuna.logging.set_verbosity(optuna.logging.ERROR)


@pytest.fixture(autouse=True)
def no_server_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(trial_process, "WARMTH", Warmth())
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    yield
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


def attributes(study: optuna.Study, name: str) -> list[object]:
    return [trial.user_attrs.get(name) for trial in study.trials]


def run(folder: Path, code: str) -> subprocess.Popen[str]:
    """A search of its own, as a user writes it."""
    head = "import os, sys, time, optuna\nfrom ramledger.integrations.optuna import held_to\n"
    head += "optuna.logging.set_verbosity(optuna.logging.ERROR)\n"
    (folder / "search.py").write_text(head + code)
    return subprocess.Popen(
        [sys.executable, "search.py"], cwd=folder, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder / 'site-packages'}"},
    )  # fmt: skip


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def test_later_trials_come_from_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study()
    for told in "abc":
        monkeypatch.setenv("RAMLEDGER_TEST_TOLD", told)
        study.optimize(trials.looking, n_trials=1)
    fresh, *warm = attributes(study, "parent")
    assert fresh == os.getpid() and len(set(warm)) == 1 and fresh not in warm
    assert fork_server.CHANNEL not in os.environ and not any(attributes(study, "strange"))
    # what a fresh one has: numbers of its own, the environment as it is now
    assert len(set(attributes(study, "draw"))) == 3
    assert attributes(study, "told") == ["a", "b", "c"]
    # pages of libraries count in both
    first, *peaks = (trial.user_attrs[PEAK] for trial in study.trials)
    assert all(0.8 < peak / first < 1.25 for peak in peaks)
    study.optimize(trials.looking, n_trials=4, n_jobs=2)
    assert set(attributes(study, "parent")) == {os.getpid(), warm[0]}
    study.optimize(trials.looking_afresh, n_trials=1)
    assert attributes(study, "parent")[-1] == os.getpid()


def test_without_the_server_trials_are_fresh() -> None:
    study = optuna.create_study()
    study.optimize(trials.looking, n_trials=2)
    parent = attributes(study, "parent")[-1]
    assert isinstance(parent, int) and parent != os.getpid()
    os.kill(parent, signal.SIGKILL)
    os.waitid(os.P_PID, parent, os.WEXITED | os.WNOWAIT)
    study.optimize(trials.looking, n_trials=2)
    assert attributes(study, "parent")[2:] == [os.getpid()] * 2
    assert attributes(study, ENDED) == ["finished"] * 4


def test_a_warm_trial_is_held_to_its_limit() -> None:
    study = optuna.create_study()
    for mib in (10, 60, 1000):
        study.enqueue_trial({"mib": mib})
    study.optimize(trials.held, n_trials=3)
    assert attributes(study, ENDED) == ["finished", "finished", "over the limit"]
    assert 200 * MIB < study.trials[2].user_attrs[PEAK] < 900 * MIB


def test_what_a_warm_trial_started_is_ended_with_it() -> None:
    study = optuna.create_study()
    study.optimize(trials.later_with_worker, n_trials=2)
    assert attributes(study, ENDED) == ["finished", "over the limit"]
    assert len(set(attributes(study, "parent"))) == 2
    worker = study.trials[1].user_attrs["worker"]
    wait_until(lambda: not is_running(worker))


def test_a_warm_trial_leaves_as_a_program_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAMLEDGER_TEST_FOLDER", str(tmp_path))
    study = optuna.create_study()
    study.optimize(trials.leaving, n_trials=2)
    assert len(set(attributes(study, "parent"))) == 2
    for number in range(2):
        assert (tmp_path / f"open{number}").read_text() == "written"
        assert (tmp_path / f"exit{number}").read_text() == "left"


def test_libraries_of_another_objective_are_not_its_memory() -> None:
    warmth = Warmth()
    try:
        warmth.learn(("a", "large"), ["optuna", "numpy"])
        warmth.learn(("a", "small"), ["optuna"])
        warmth.learn(("a", "same"), ["optuna", "numpy", "colorlog"])
        assert warmth.context(("a", "new")).get_start_method() == "spawn"
        assert warmth.context(("a", "large")).get_start_method() == "forkserver"
        assert warmth.context(("a", "small")).get_start_method() == "spawn"
        assert warmth.context(("a", "same")).get_start_method() == "forkserver"
        assert warmth.context(("a", "large")).get_start_method() == "spawn"
    finally:
        forkserver._forkserver._stop()  # type: ignore[attr-defined]


@pytest.mark.parametrize("unsafe", ["tensorflow.keras", "jax", "ray", "grpc._channel"])
def test_what_must_not_be_forked_is_not(unsafe: str) -> None:
    warmth = Warmth()
    warmth.learn(("a", "b"), ["optuna", unsafe])
    assert warmth.context(("a", "b")).get_start_method() == "spawn"
    assert forkserver._forkserver._forkserver_pid is None  # type: ignore[attr-defined]


THREADED = """
@held_to("300MiB")
def objective(trial):
    import threaded
    trial.set_user_attr("parent", os.getppid())
    return 1.0
if __name__ == "__main__":
    study = optuna.create_study()
    study.optimize(objective, n_trials=3)
    assert [t.user_attrs["parent"] for t in study.trials] == [os.getpid()] * 3
"""


@pytest.mark.parametrize(
    "library",
    [
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
        "import socket\nkept = socket.socketpair()",
        "import os, sys\nif '-c' in sys.argv[0]: os.abort()",
    ],
    ids=["a thread", "a connection", "a crash"],
)
def test_a_library_that_a_fork_would_break(tmp_path: Path, library: str) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "threaded.py").write_text(library)
    search = run(tmp_path, THREADED)
    _, errors = search.communicate(timeout=100)
    assert search.returncode == 0, errors


OWN_SERVER = """
import multiprocessing
@held_to("300MiB")
def objective(trial):
    trial.set_user_attr("parent", os.getppid())
    return 1.0
if __name__ == "__main__":
    own = multiprocessing.get_context("forkserver").Process(target=time.sleep, args=(0,))
    own.start()
    own.join()
    study = optuna.create_study()
    study.optimize(objective, n_trials=2)
    assert [t.user_attrs["parent"] for t in study.trials] == [os.getpid()] * 2
"""


def test_a_server_of_the_program_itself_is_left_alone(tmp_path: Path) -> None:
    search = run(tmp_path, OWN_SERVER)
    _, errors = search.communicate(timeout=100)
    assert search.returncode == 0, errors


LONG = """
import subprocess
@held_to("300MiB")
def objective(trial):
    if trial.number:
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        print(os.getppid(), os.getpid(), worker.pid, flush=True)
        time.sleep(60)
    return 0.0
if __name__ == "__main__":
    optuna.create_study().optimize(objective, n_trials=2)
"""


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_the_search(tmp_path: Path, kind: signal.Signals) -> None:
    search = run(tmp_path, LONG)
    assert search.stdout is not None
    pids = [int(word) for word in search.stdout.readline().split()]
    assert len(pids) == 3 and search.pid not in pids and all(map(is_running, pids))
    os.killpg(search.pid, kind) if kind == signal.SIGINT else search.send_signal(kind)
    search.communicate(timeout=100)
    wait_until(
        lambda: not any(map(is_running, pids)), why=lambda: [is_running(pid) for pid in pids]
    )


TRAINING = """
import numpy as np
import torch
from stable_baselines3 import A2C
print(__name__, flush=True)
@held_to("4GiB")
def objective(trial):
    torch.set_num_threads(2)
    ours = np.random.random((600, 600))
    theirs = torch.from_numpy(ours)
    assert np.allclose(ours @ ours, (theirs @ theirs).numpy())
    model = A2C("MlpPolicy", "CartPole-v1", device="cpu", seed=1)
    began = time.process_time()
    model.learn(100)
    trial.set_user_attr("parent", os.getppid())
    trial.set_user_attr("began", began)
    return float(model.policy.value_net.weight.detach().sum())
if __name__ == "__main__":
    study = optuna.create_study()
    study.optimize(objective, n_trials=3)
    study.optimize(objective, n_trials=2, n_jobs=2)
    fresh, *warm = [t.user_attrs for t in study.trials]
    assert fresh["parent"] == os.getpid() and {t["parent"] for t in warm} != {os.getpid()}
    assert len({t["parent"] for t in warm}) == 1
    # imports are what a fresh one begins with
    assert max(t["began"] for t in warm) < fresh["began"] / 2, study.trials
    assert len({t.value for t in study.trials}) == 1
"""


def test_a_training_is_the_same_and_begins_sooner(tmp_path: Path) -> None:
    search = run(tmp_path, TRAINING)
    output, errors = search.communicate(timeout=120)
    assert search.returncode == 0, errors
    # the user's own module is imported by every trial
    assert output.split() == ["__main__", *["__mp_main__"] * 5]
    assert "Warning" not in errors


def test_looks_are_rare_far_below_the_limit() -> None:
    assert interval_seconds(8 << 30) == 0.25
    assert interval_seconds(400 * MIB) == pytest.approx(0.1, rel=0.1)
    assert interval_seconds(-1) == interval_seconds(MIB) == 0.02
