"""Trials that are planned, held to their limit in their own process, and measured."""

import os
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest

from ramledger.errors import ConfigError, RamledgerError
from ramledger.integrations.optuna import (
    ENDED,
    LIMIT,
    PEAK,
    PLANNED,
    held_to,
    memory_of,
    open_study,
    report,
)
from tests.support import optuna_trials as trials
from tests.support.places import ROOT

MIB = 1 << 20
optuna.logging.set_verbosity(optuna.logging.ERROR)


@pytest.fixture
def study(tmp_path: Path) -> optuna.Study:
    return open_study(tmp_path / "search.journal", sampler=optuna.samplers.RandomSampler(seed=1))


def wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 90
    while os.path.exists(f"/proc/{pid}"):
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if state == "Z":
            return
        assert time.monotonic() < deadline, pid
        time.sleep(0.01)


def test_what_fits_runs_elsewhere_and_is_measured(study: optuna.Study) -> None:
    study.enqueue_trial({"mib": 60})
    study.optimize(trials.held_and_planned, n_trials=1)
    (trial,) = study.trials
    assert trial.value == pytest.approx(60**0.5)
    assert trial.user_attrs["pid"] != os.getpid()
    assert trial.user_attrs[ENDED] == "finished"
    assert trial.user_attrs[PLANNED] == 90 * MIB
    assert 60 * MIB < trial.user_attrs[PEAK] < trial.user_attrs[LIMIT] == 200 * MIB
    # what the trial reported came through
    assert trial.intermediate_values == {at: at for at in range(0, 60, 10)}


def test_what_cannot_fit_never_starts(study: optuna.Study) -> None:
    study.enqueue_trial({"mib": 900})
    study.optimize(trials.held_and_planned, n_trials=1)
    (trial,) = study.trials
    assert trial.state is optuna.trial.TrialState.PRUNED
    assert trial.user_attrs[ENDED] == "does not fit"
    assert trial.user_attrs[PLANNED] == 930 * MIB
    assert PEAK not in trial.user_attrs and not trial.intermediate_values


def test_a_plan_may_be_the_settings(study: optuna.Study) -> None:
    def settings(trial: optuna.Trial) -> dict[str, object]:
        width = trial.suggest_int("net_dim", 64, 4096)
        return {"algorithm": "DDPG", "env": "Pendulum-v1", "net_arch": [width, width],
                "buffer_size": 1000}  # fmt: skip

    study.enqueue_trial({"net_dim": 4096})
    study.optimize(held_to("300MiB", plan=settings)(trials.hold), n_trials=1)
    (trial,) = study.trials
    assert trial.user_attrs[ENDED] == "does not fit"
    assert (
        trial.user_attrs[PLANNED] > 2 * 4 * 4096**2 * 4
    )  # two networks: weights, targets, moments


def test_a_trial_is_ended_at_its_limit(study: optuna.Study) -> None:
    study.enqueue_trial({"mib": 1000})
    study.optimize(trials.held, n_trials=1)
    (trial,) = study.trials
    assert trial.state is optuna.trial.TrialState.PRUNED
    assert trial.user_attrs[ENDED] == "over the limit"
    assert 200 * MIB < trial.user_attrs[PEAK] < 900 * MIB


def test_what_a_trial_started_counts_and_is_ended_with_it(study: optuna.Study) -> None:
    study.optimize(trials.with_worker, n_trials=1)
    (trial,) = study.trials
    assert trial.user_attrs[ENDED] == "over the limit"
    wait_gone(trial.user_attrs["worker"])


def test_errors_come_through(study: optuna.Study) -> None:
    study.optimize(trials.failing, n_trials=1, catch=(ValueError,))
    assert study.trials[0].state is optuna.trial.TrialState.FAIL
    with pytest.raises(RamledgerError, match="exit code 7"):
        study.optimize(trials.vanishing, n_trials=1)
    with pytest.raises(ConfigError, match="cannot be found from another process"):
        held_to("1GiB")(lambda trial: 0.0)(study.ask())
    with pytest.raises(ConfigError):
        held_to("0")


def test_a_pruner_may_end_it(tmp_path: Path) -> None:
    pruner = optuna.pruners.ThresholdPruner(upper=25)
    study = open_study(tmp_path / "journal", pruner=pruner)
    study.enqueue_trial({"mib": 100})
    study.optimize(trials.held, n_trials=1)
    (trial,) = study.trials
    assert trial.state is optuna.trial.TrialState.PRUNED
    assert trial.user_attrs[ENDED] == "raised"
    assert max(trial.intermediate_values) == 30


def test_memory_against_score(study: optuna.Study) -> None:
    rows = [(100, 1.0), (200, 0.5), (300, 2.0), (90, 0.9), (400, 2.0)]
    for peak, score in rows:
        attributes = {PEAK: peak * MIB, ENDED: "finished"}
        study.add_trial(optuna.create_trial(value=score, user_attrs=attributes))
    assert [row.number for row in memory_of(study) if row.best] == [0, 2, 3]
    lines = report(study).splitlines()
    assert lines[0].split() == ["trial", "score", "planned", "peak", "ended"]
    assert [line.startswith("*") for line in lines[1:]] == [True, False, True, True, False]
    assert "300.0 MiB" in lines[3]


def test_two_processes_on_one_study(tmp_path: Path) -> None:
    path = tmp_path / "search.journal"
    code = "import sys; from pathlib import Path; from tests.support.optuna_trials import search\n"
    code += "if __name__ == '__main__': search(Path(sys.argv[1]), 2)"
    (tmp_path / "one.py").write_text(code)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    searches = [
        subprocess.Popen([sys.executable, tmp_path / "one.py", path], env=env) for _ in range(2)
    ]
    assert [process.wait(timeout=100) for process in searches] == [0, 0]
    found = open_study(path).trials
    assert sorted(trial.number for trial in found) == list(range(4))
    assert [trial.value for trial in found] == [2.0 + number for number in range(4)]
    with pytest.raises(ConfigError, match="another direction"):
        open_study(path, direction="minimize")


def test_the_example_searches(tmp_path: Path) -> None:
    journal = tmp_path / "search.journal"
    study = open_study(journal)
    common = {"algorithm": "PPO", "worker_num": 1, "batch_size": 64, "thread_num": 1}
    study.enqueue_trial(common | {"net_dim": 4096})
    study.enqueue_trial(common | {"net_dim": 64})
    example = ROOT / "examples" / "optuna_search.py"
    done = subprocess.run(
        [sys.executable, example, journal, "--trials", "2", "--steps", "64", "--limit", "800MiB"],
        capture_output=True, text=True, timeout=200, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    refused, trained = memory_of(study)
    assert (refused.ended, refused.peak_bytes) == ("does not fit", None)
    assert trained.ended == "finished" and trained.best
    assert trained.peak_bytes is not None and trained.planned_bytes is not None
    # the plan was about this very training
    assert 0.5 < trained.peak_bytes / trained.planned_bytes < 1.5
    assert "does not fit" in done.stdout
