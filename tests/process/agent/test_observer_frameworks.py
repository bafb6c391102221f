"""Frameworks under a recorder: models saved under pressure, classes and forks as they are."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stable_baselines3 import A2C

from ramledger.agent.launch_environment import environment_with_agent
from ramledger.events import CurrentPhaseEvent, NoteEvent, PressureEvent, RunEndEvent
from ramledger.ledger import Limit
from ramledger.recorder import watcher
from ramledger.recorder.limit_guard import LimitGuard
from ramledger.recorder.watcher import Watcher
from ramledger.units import MIB
from tests.process.recorder.test_run_recorder import record
from tests.support.waiting import wait_until

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
    guard = LimitGuard(Limit(800 * MIB, "--limit"), "stop", grace_seconds=5)
    code = ENVIRONMENT.replace("GROWTH", "1 << 20") + TRAINS
    recording = record(tmp_path, code, guard=guard, rescue_folder=str(folder))
    [saved] = folder.iterdir()
    model = A2C.load(saved, device="cpu")
    assert saved.name == f"A2C-{model.num_timesteps}.zip"
    assert model.num_timesteps > 0
    assert any(str(saved) in note.text for note in recording.of_type(NoteEvent))


CLASSES = """
import cloudpickle, gymnasium, pickle, subprocess, sys
assert "__init_subclass__" not in vars(gymnasium.Env)
before = {name: vars(Corridor)[name] for name in ("reset", "step", "close")}
Corridor().reset()
for name, function in before.items():
    assert function is vars(Corridor)[name] and function.__code__.co_filename == __file__, name
    assert not hasattr(function, "__wrapped__")
LOAD = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())().reset()"
subprocess.run([sys.executable, "-c", LOAD], input=cloudpickle.dumps(Corridor), check=True)
"""


def test_classes_of_the_programs_environments_are_its_own(tmp_path: Path) -> None:
    recording = record(tmp_path, ENVIRONMENT.replace("GROWTH", "8") + CLASSES)
    [end] = recording.of_type(RunEndEvent)
    assert end.exit_code == 0


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
    guard = LimitGuard(Limit(600 * MIB, "--limit"), "stop")
    recording = record(tmp_path, FORKING, guard=guard)
    assert not list(recording.of_type(PressureEvent))
    [end] = recording.of_type(RunEndEvent)
    assert 200 * MIB < (end.peak_bytes or 0) < 350 * MIB


TOLD = """
import itertools, time, ramledger
ledger = ramledger.record()
for generation in itertools.count():
    with ledger.phase("evaluate", generation=generation): time.sleep(0.05)
"""


def test_a_watcher_sees_generation_and_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "_ANSWER_SECONDS", 60.0)  # however busy the machine is
    script = tmp_path / "train.py"
    script.write_text(TOLD)
    environment = environment_with_agent(os.environ, {"recorder": str(tmp_path / "gone")})
    with subprocess.Popen([sys.executable, str(script)], env=environment) as process:
        watching = Watcher([process.pid])
        said: list[CurrentPhaseEvent] = []
        clock = itertools.count(step=watcher._ASKING_SECONDS)

        def is_training() -> bool:
            found = watching.sample(next(clock))
            said.extend(event for event in found if isinstance(event, CurrentPhaseEvent))
            return bool(said and said[-1].phase and said[-1].generation)

        try:
            wait_until(is_training)
        finally:
            watching.close()
            process.kill()
    assert (said[-1].generation or 0) > 0
    assert said[-1].phase == "evaluate"


def test_nothing_of_a_framework_is_imported_for_it() -> None:
    code = "import ramledger.agent.observer, sys; print('gymnasium' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.stdout == "False\n"
