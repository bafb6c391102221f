"""MemoryCallback with the real Stable-Baselines3: logger, verdict, limit; alone and under `run`."""

import csv
import json
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3 import DQN
from stable_baselines3.common.logger import configure

from ramledger.errors import ConfigError, RecordingError
from ramledger.integrations.stable_baselines import MemoryCallback
from ramledger.process_session import ProcessSession

RAMLEDGER = Path(sys.executable).with_name("ramledger")
TRAIN = """
import json, sys
import gymnasium, numpy as np, torch
torch.set_num_threads(1)
from stable_baselines3 import DQN
from stable_baselines3.common.logger import configure
from ramledger.integrations.stable_baselines import MemoryCallback
from ramledger.process_session import ProcessSession
kept = []
class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (400,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 25
        return np.zeros(400, np.float32), {}
    def step(self, action):
        self.left -= 1
        if LEAKS:
            kept.append(np.ones(10_000))
        return np.ones(400, np.float32), 1.0, self.left == 0, False, {}
sizes = {"buffer_size": 20_000, "learning_starts": 200, "train_freq": 20}
model = DQN("MlpPolicy", Corridor(), device="cpu", **sizes)
model.set_logger(configure("log", ["csv"]))
callback = MemoryCallback(every_seconds=1.0, OPTIONS)
model.learn(STEPS, callback=callback, log_interval=4)
findings = callback.diagnosis.findings if callback.diagnosis else []
leaks = [found for found in findings if found.kind == "leak"]
print(json.dumps({
    "steps": model.num_timesteps, "stopped": callback.stopped_at_bytes,
    "verdict": str(callback.diagnosis.verdict) if callback.diagnosis else None,
    "paths": [found.culprit.path for found in leaks],
}))
"""


def train(
    tmp_path: Path,
    *,
    leaks: bool,
    options: str = "",
    steps: int = 2_000,
    under: list[str] | None = None,
    before: str = "",
) -> tuple[dict[str, Any], list[dict[str, str]], str]:
    code = TRAIN.replace("LEAKS", str(leaks)).replace("OPTIONS", options)
    code = code.replace("STEPS", str(steps))
    (tmp_path / "train.py").write_text(before + code)
    done = subprocess.run(
        [*(under or []), sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "log" / "progress.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    return json.loads(done.stdout.splitlines()[-1]), rows, done.stdout


def test_the_logger_gets_a_whole_statement_and_a_leak_its_name(tmp_path: Path) -> None:
    found, rows, out = train(tmp_path, leaks=True, steps=20_000)
    assert found["verdict"] == "leak", out
    assert found["paths"] == ["train.py:kept"]
    last = {key: float(value) for key, value in rows[-1].items() if key.startswith("memory/")}
    rss = last.pop("memory/rss")
    assert sum(last.values()) == pytest.approx(rss, abs=0.2)
    assert last["memory/libraries"] > 20
    assert "ramledger: leak" in out


def test_a_healthy_run_stays_quiet_about_leaks(tmp_path: Path) -> None:
    found, _, out = train(tmp_path, leaks=False, steps=20_000)
    assert found["verdict"] == "healthy", out
    assert found["stopped"] is None


def test_the_limit_saves_and_stops(tmp_path: Path) -> None:
    options = "max_rss='500 MiB', save_path='last.zip'"
    found, _, _ = train(tmp_path, leaks=True, options=options, steps=8_000)
    assert found["stopped"] > 500 << 20
    assert found["steps"] < 8_000
    assert DQN.load(tmp_path / "last.zip", device="cpu").num_timesteps == found["steps"]


def test_a_container_that_is_nearly_full_has_the_model_saved_once_and_goes_on(
    tmp_path: Path,
) -> None:
    limit = (
        "from ramledger.ledger import Limit\n"
        "from ramledger.measure import limits\n"
        "limits.tightest = lambda pid: Limit(800 << 20, '--limit')\n"
    )
    options = "save_path='last.zip'"
    found, _, out = train(tmp_path, leaks=True, options=options, steps=9_000, before=limit)
    assert found["steps"] == 9_000
    assert found["stopped"] is None
    assert out.count("ramledger: memory runs out: saved last.zip") == 1
    assert 0 < DQN.load(tmp_path / "last.zip", device="cpu").num_timesteps < 9_000


def test_under_run_it_joins_that_recording(tmp_path: Path) -> None:
    under = [str(RAMLEDGER), "run", "--quiet", "--out", "run.ledger.jsonl", "--"]
    found, rows, _ = train(tmp_path, leaks=False, under=under)
    assert found["verdict"] is None  # that of `run` comes at its end
    assert float(rows[-1]["memory/rss"]) > 100
    assert len(list(tmp_path.glob("*.ledger.jsonl"))) == 1


def test_ten_thousand_steps_read_rss_as_often_as_time_goes_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    callback = MemoryCallback(max_rss="64 GiB")
    session = callback._session
    process = session._process = ProcessSession()
    session.next_check_at = 0.0
    readings: list[int] = []

    def read() -> int:
        readings.append(1)
        return 1 << 30

    monkeypatch.setattr(process, "rss_bytes", read)
    monkeypatch.setattr(time, "monotonic", lambda: 1.0)
    assert all(callback._on_step() for _ in range(10_000))
    assert len(readings) == 1


def test_it_can_be_pickled_after_a_training_too() -> None:
    callback = MemoryCallback(max_rss="2 GiB")
    callback.locals, callback.globals = {"self": sys}, {"sys": sys}  # as `learn` leaves them
    callback._session._say = lambda text: None  # as a training leaves it
    copy = pickle.loads(pickle.dumps(callback))
    assert copy.max_bytes == copy._session._max_bytes == 2 << 30


@pytest.mark.parametrize("size", [-1, True, "lots"])
def test_a_limit_that_is_no_size_is_an_error_at_once(size: Any) -> None:
    with pytest.raises(ConfigError):
        MemoryCallback(max_rss=size)


@pytest.mark.parametrize("seconds", [-1, None, float("nan")])
def test_a_period_that_is_none_is_an_error_at_once(seconds: Any) -> None:
    with pytest.raises(ConfigError, match="every_seconds"):
        MemoryCallback(every_seconds=seconds)


UNSAVED = """
from stable_baselines3 import DQN
from ramledger.integrations.stable_baselines import MemoryCallback
from ramledger.process_session import ProcessSession
model = DQN("MlpPolicy", "CartPole-v1", device="cpu", learning_starts=50)
callback = MemoryCallback(max_rss="1 MiB", save_path="/proc/x/last.zip")
model.learn(300, callback=callback)
assert model.num_timesteps == 1 and callback.stopped_at_bytes > 1 << 20
callback.max_bytes = None
model.learn(100, callback=callback)
assert model.num_timesteps == 100 and callback.stopped_at_bytes is None
"""


def test_a_model_that_cannot_be_saved_at_the_limit_stops_in_an_orderly_way() -> None:
    done = subprocess.run([sys.executable, "-c", UNSAVED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning: the model was not saved to /proc/x/last.zip" in done.stderr


LATER = """
import resource, signal
from stable_baselines3 import DQN
from ramledger.integrations.stable_baselines import MemoryCallback
from ramledger.process_session import ProcessSession
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
model = DQN("MlpPolicy", "CartPole-v1", device="cpu", learning_starts=50)
model.learn(300, callback=MemoryCallback(recording="first.ledger.jsonl"))
resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))  # as a full disk
later = MemoryCallback(recording="second.ledger.jsonl")
model.learn(300, callback=later)
assert later.diagnosis is not None
"""


def test_a_later_training_in_the_process_has_its_verdict_from_the_same_recording(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATER], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert "recorded already: nothing is written to second.ledger.jsonl" in said[1]
    assert "the recording is incomplete: File too large" in said[2]
    assert len(said) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["first.ledger.jsonl"]


def test_one_callback_serves_two_trainings_and_a_second_one_rests(tmp_path: Path) -> None:
    code = (
        "from stable_baselines3 import DQN\n"
        "from stable_baselines3.common.callbacks import CallbackList\n"
        "from ramledger.integrations.stable_baselines import MemoryCallback\n"
        "first, second = MemoryCallback(), MemoryCallback()\n"
        "model = DQN('MlpPolicy', 'CartPole-v1', device='cpu', learning_starts=50)\n"
        "model.learn(300, callback=CallbackList([first, second, first]))\n"
        "model.learn(300, callback=first, reset_num_timesteps=False)\n"
        "assert model.num_timesteps == 600 and second.diagnosis is None\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ramledger: ") == 2  # one verdict a training


def test_a_place_that_cannot_be_written_is_one_clear_error() -> None:
    with pytest.raises(RecordingError, match=r"cannot write /proc/x\.ledger\.jsonl"):
        DQN("MlpPolicy", "CartPole-v1", device="cpu").learn(
            100, callback=MemoryCallback(recording="/proc/x.ledger.jsonl", verbose=0)
        )


def test_no_room_for_a_temporary_file_leaves_the_training_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = DQN("MlpPolicy", "CartPole-v1", device="cpu", learning_starts=50, seed=1)
    model.set_logger(configure(str(tmp_path), ["csv", "log"]))  # a temporary file by default, too
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    callback = MemoryCallback()
    model.learn(400, callback=callback)  # a row is written every four episodes
    model.logger.close()
    assert model.num_timesteps == 400
    assert callback.diagnosis is None
    assert "ramledger: cannot write a temporary file" in capsys.readouterr().out
    [row, *_] = csv.DictReader((tmp_path / "progress.csv").read_text().splitlines())
    assert row["memory/tensorflow"] == "0.0"
    table = (tmp_path / "log.txt").read_text()
    assert "libraries" in table
    assert "tensorflow" not in table  # what is empty is no row for people


def test_a_training_in_worker_processes_takes_the_callback(tmp_path: Path) -> None:
    code = (
        "from stable_baselines3 import PPO\n"
        "from stable_baselines3.common.env_util import make_vec_env\n"
        "from stable_baselines3.common.vec_env import SubprocVecEnv\n"
        "from ramledger.integrations.stable_baselines import MemoryCallback\n"
        "if __name__ == '__main__':\n"
        "    envs = make_vec_env('CartPole-v1', 2, vec_env_cls=SubprocVecEnv)\n"
        "    model = PPO('MlpPolicy', envs, n_steps=64, device='cpu')\n"
        "    model.learn(256, callback=MemoryCallback())\n"
        "    envs.close()\n"
    )
    (tmp_path / "train.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "ramledger: " in done.stdout


def test_a_release_that_is_too_old_is_named(tmp_path: Path) -> None:
    package = tmp_path / "stable_baselines3" / "common"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("__version__ = '1.8.0'\n")
    (package / "__init__.py").write_text("")
    (package / "callbacks.py").write_text("class BaseCallback: pass\n")
    code = "import ramledger.integrations.stable_baselines"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert "ConfigError: stable-baselines3 1.8.0 is too old: 2.0 is needed" in done.stderr
