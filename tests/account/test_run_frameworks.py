"""Frameworks under a recorder: models saved under pressure, resets counted, forks as they are."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import gymnasium
import pytest
from stable_baselines3 import A2C

from ramledger.account.launch import environment_with_agent
from ramledger.account.onlooker import Onlooker
from ramledger.account.pressure import PressureGuard
from ramledger.inside.environments import COUNTS, count_environments
from ramledger.ledger import Limit
from ramledger.units import MIB
from tests.account.test_run_recorder import record

pytestmark = pytest.mark.serial

ENVIRONMENT = """
import gymnasium, numpy as np
class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    kept = []
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 10
        return np.zeros(4, np.float32), {}
    def step(self, action):
        self.left -= 1
        self.kept.append(np.ones(GROWTH, np.uint8))
        return np.ones(4, np.float32), 1.0, self.left == 0, False, {}
    def close(self):
        pass
"""
TRAINS = """
from stable_baselines3 import A2C
A2C("MlpPolicy", Corridor(), device="cpu").learn(4_000)
"""


def test_a_model_saves_itself_under_pressure(tmp_path: Path) -> None:
    folder = tmp_path / "rescued"
    guard = PressureGuard(Limit(800 * MIB, "--limit"), "stop", grace_seconds=5)
    code = ENVIRONMENT.replace("GROWTH", "1 << 20") + TRAINS
    recording = record(tmp_path, code, guard=guard, rescue_folder=str(folder))
    [saved] = folder.iterdir()
    model = A2C.load(saved, device="cpu")
    assert saved.name == f"A2C-{model.num_timesteps}.zip"
    assert model.num_timesteps > 0
    assert any(str(saved) in note["text"] for note in recording.of("note"))


def test_resets_and_closes_are_told(tmp_path: Path) -> None:
    code = ENVIRONMENT.replace("GROWTH", "8")
    code += (
        "env = gymnasium.wrappers.TimeLimit(Corridor(), 100)\n"
        "for episode in range(7):\n"
        "    env.reset(seed=episode)\n"
        "    while not env.step(0)[2]: pass\n"
        "env.close()\n"
    )
    events = list(record(tmp_path, code).of("environments"))
    assert sum(event["resets"] for event in events) == 7
    assert sum(event["closes"] for event in events) == 1


def test_a_class_that_is_counted_travels_without_us(monkeypatch: pytest.MonkeyPatch) -> None:
    module = gymnasium.core
    monkeypatch.setattr(module.Env, "__init_subclass__", module.Env.__init_subclass__)
    count_environments(module)
    COUNTS.take()
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(ENVIRONMENT.replace("GROWTH", "8"), scope)
    data = cloudpickle.dumps(scope["Corridor"])
    # elsewhere: cloudpickle takes a class that it knows for the same one
    load = (
        "import pickle, sys; pickle.loads(sys.stdin.buffer.read())().reset()\n"
        "assert 'ramledger' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", load], input=data, check=True)
    scope["Corridor"]().reset()
    assert COUNTS.take() == {"resets": 1, "closes": 0}


FORKING = """
import multiprocessing, time, numpy as np
def rest():
    time.sleep(2.5)
if __name__ == "__main__":
    held = np.ones(200 << 20, np.uint8)
    time.sleep(1.0)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=rest) for _ in range(4)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
"""


def test_pages_that_forked_workers_share_count_once(tmp_path: Path) -> None:
    guard = PressureGuard(Limit(600 * MIB, "--limit"), "stop")
    recording = record(tmp_path, FORKING, guard=guard)
    assert not list(recording.of("pressure"))
    [end] = recording.of("end")
    assert 200 * MIB < end["peak_bytes"] < 350 * MIB


TOLD = """
import time, ramledger
ledger = ramledger.record()
for generation in range(100):
    with ledger.phase("evaluate", generation=generation): time.sleep(0.05)
"""


def test_an_onlooker_sees_generation_and_phase(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TOLD)
    environment = environment_with_agent(os.environ, {"recorder": str(tmp_path / "gone")})
    with subprocess.Popen([sys.executable, str(script)], env=environment) as process:
        onlooker = Onlooker([process.pid])
        said: list[dict[str, Any]] = []
        deadline = time.monotonic() + 60
        while not any(event["generation"] for event in said) and time.monotonic() < deadline:
            events = onlooker.look(time.monotonic())
            said += [event for event in events if event["event"] == "now"]
            time.sleep(0.2)
        onlooker.close()
        process.kill()
    assert said[-1]["generation"] > 0
    assert said[-1]["phase"] == "evaluate"


def test_nothing_of_a_framework_is_imported_for_it() -> None:
    code = "import ramledger.account.watching, sys; print('gymnasium' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.stdout == "False\n"
