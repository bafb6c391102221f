"""On Ray the run is the same, bit by bit, also when actors die; Ray is in an environment apart."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ramledger
from ramledger.events import RemoteProcessEvent
from ramledger.recording import Recording
from ramledger.train.trainer import Listener, Trainer
from ramledger.trainer_config import checked
from tests.support.small_trainings import (
    COMMAND,
    SMALL,
    SMALL_TOML,
    new_trainer,
    resumed,
    same,
    train,
)

ray = pytest.importorskip("ray", reason="make test-ray installs it")

from ramledger.train.ray_engine import RayEngine  # noqa: E402

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("default")]  # ray has its own
UNEVEN: dict[str, Any] = {"population": 5, "shards": 2, "generations": 3}
TD3: dict[str, Any] = {
    "exploration": {"noise": "parameter"}, "shared_batch": True, "learners": 3,
    "learning": {"hidden": [16], "batch": 8, "twin": True, "policy_delay": 2, "target_noise": 0.2},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Started once: it takes seconds."""
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    ray.init(num_cpus=4, include_dashboard=False, object_store_memory=200 << 20,
             logging_level="ERROR", log_to_driver=False)  # fmt: skip
    yield
    ray.shutdown()


def on_ray(folder: Path, listener: Listener | None = None, **changes: Any) -> Trainer:
    config = checked({**SMALL, **UNEVEN, **changes})
    engine = RayEngine(config)
    return Trainer(config, folder, ledger=ramledger.record(), listener=listener, engine=engine)


class Killer(Listener):
    """Ends an actor at given points of the second generation."""

    def __init__(self, *points: str) -> None:
        self.points = points

    def begin(self, trainer: Trainer, phase: str) -> None:
        self._kill(trainer, phase, 1)

    def advance(self, trainer: Trainer, done: int, of: int) -> None:
        if done == 4:
            self._kill(trainer, "update", 0)

    def _kill(self, trainer: Trainer, point: str, shard: int) -> None:
        if trainer.generation == 1 and point in self.points:
            assert isinstance(trainer.engine, RayEngine)
            pids = ray.get([actor.memory.remote() for actor in trainer.engine._actors])
            os.kill(pids[shard]["pid"], signal.SIGKILL)


class StopAt(Listener):
    """Asks a run to stop after an update of the second generation."""

    def advance(self, trainer: Trainer, done: int, of: int) -> None:
        if (trainer.generation, done) == (1, 3):
            trainer.stop("asked")


@pytest.mark.parametrize("changes", [{}, TD3, {"agents_per_chunk": 2}], ids=["DDPG", "TD3", "few"])
def test_the_same_shards_are_the_same_run(tmp_path: Path, changes: dict[str, Any]) -> None:
    here = new_trainer(tmp_path / "here", **{**UNEVEN, **changes})
    here.run()
    there = on_ray(tmp_path / "there", **changes)
    assert there.run() == "finished"
    same(here, there)


def test_actors_that_die_are_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    here = new_trainer(tmp_path / "here", **UNEVEN)
    here.run()
    there = on_ray(tmp_path / "there", Killer("evaluate", "update", "evolve"))
    assert there.run() == "finished"
    assert isinstance(there.engine, RayEngine) and there.engine.deaths == 3
    same(here, there)


def test_stopped_there_it_goes_on_here(tmp_path: Path) -> None:
    whole = new_trainer(tmp_path / "whole", **UNEVEN)
    whole.run()
    there = on_ray(tmp_path / "run", StopAt())
    assert there.run() == "asked"
    assert (there.generation, there.updates_done) == (1, 3)
    here = resumed(tmp_path / "run")
    here.run()
    same(whole, here)


def test_gymnasium_environments_run_there_too(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "env": "Pendulum-v1",
        "generations": 2,
        "population": 2,
        "episodes": 1,
    }
    here = new_trainer(tmp_path / "here", **{**UNEVEN, **changes})
    here.run()
    there = on_ray(tmp_path / "there", **changes)
    there.run()
    assert there.history == here.history


def test_the_command_records_its_actors(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL_TOML)
    done = train("small.toml", "--out", "run", "--generations", "2", "--engine", "ray",
                 "--workers", "2", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    here = new_trainer(tmp_path / "here", generations=2, shards=2)
    here.run()
    same(here, resumed(tmp_path / "run"))
    recording = Recording.read(str(tmp_path / "run" / "train.ledger.jsonl"))
    told = list(recording.of_type(RemoteProcessEvent))
    assert [event.name for event in told] == ["shard 0", "shard 1"] * 2
    assert all(0 < (event.pss_bytes or 0) < (event.rss_bytes or 0) for event in told)
    assert all(event.limit and event.limit.bytes for event in told)


def test_a_signal_ends_it_with_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL_TOML)
    command = [str(COMMAND), "train", "small.toml", "--out", "run", "--engine", "ray"]
    with subprocess.Popen(
        [*command, "--workers", "2", "--generations", "1000"], cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 200
        while not list(tmp_path.glob("run/replay/save-*.json")):
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.05)
        process.terminate()
        out, error = process.communicate(timeout=200)
    assert process.returncode == 128 + signal.SIGTERM, error
    assert "SIGTERM after" in out
    found = resumed(tmp_path / "run", generations=1000)
    whole = new_trainer(tmp_path / "whole", generations=max(found.generation, 1), shards=2)
    whole.run()
    assert found.history == whole.history[: len(found.history)]
