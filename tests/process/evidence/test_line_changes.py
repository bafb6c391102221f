"""Real programs that leak, each in a way that only its author can mend: the line to change."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded_programs import COMMAND

LOOP = """
def main():
    for iteration in range(40):
        work(iteration)
        time.sleep(0.1)

main()
"""

FIGURES = """import time
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt

def work(iteration):
    fig, ax = plt.subplots()
    ax.plot([iteration, 1])
    fig.savefig("returns.png", dpi=40)
"""
ENVIRONMENTS = """import time
import gymnasium as gym
import numpy as np

class Maze(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (10,), np.float32)
    action_space = gym.spaces.Discrete(2)
    opened = []

    def __init__(self):
        self.map = np.ones(200_000)
        Maze.opened.append(self)

    def close(self):
        Maze.opened.remove(self)

    def reset(self, *, seed=None, options=None):
        return np.zeros(10, np.float32), {}

    def step(self, action):
        return np.zeros(10, np.float32), 1.0, True, False, {}

gym.register("Maze-v0", entry_point=Maze)

def work(iteration):
    env = gym.make("Maze-v0")
    env.reset()
    env.step(0)
"""
CACHE = """import time
from functools import lru_cache
import numpy as np

@lru_cache(maxsize=None)
def features(state):
    return np.full(60_000, state, dtype=np.float64)

def work(iteration):
    for at in range(4):
        features(iteration * 4 + at)
"""
HISTORY = """import time
import numpy as np

class Agent:
    def __init__(self):
        self.history = []

    def log(self, observation):
        self.history.append(observation)

agent = Agent()

def work(iteration):
    for step in range(10):
        agent.log(np.random.rand(20_000))
"""


def diagnosis_of(folder: Path, program: str) -> dict[str, Any]:
    (folder / "train.py").write_text(program + LOOP)
    words = [COMMAND, "run", "--json", "--quiet", "--out", "run.ledger.jsonl", "--"]
    words += [sys.executable, "train.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["diagnosis"]
    return found


@pytest.mark.parametrize(
    ("program", "change", "needs"),
    [
        (FIGURES, "train.py:7: fig, ax = plt.subplots() → the same, and plt.close(fig) before "
         "work() returns, train.py:9", "matplotlib"),
        (ENVIRONMENTS, 'train.py:26: env = gym.make("Maze-v0") → the same, and env.close() before '
         "work() returns, train.py:28; what stays then is held by Maze.opened", "gymnasium"),
        (CACHE, "train.py:5: @lru_cache(maxsize=None) → @lru_cache(maxsize=N)", "numpy"),
        (HISTORY, "train.py:6: self.history = [] → self.history = collections.deque(maxlen=N)",
         "numpy"),
    ],
    ids=["figures", "environments", "cache", "history"],
)  # fmt: skip
def test_the_line_to_change(tmp_path: Path, program: str, change: str, needs: str) -> None:
    pytest.importorskip(needs)
    diagnosis = diagnosis_of(tmp_path, program)
    assert diagnosis["verdict"] == "leak", diagnosis["reason"]
    assert diagnosis["findings"][0]["advice"].startswith(change)


@pytest.mark.parametrize(
    ("program", "old", "new"),
    [
        (FIGURES, "dpi=40)", "dpi=40)\n    plt.close(fig)"),
        (ENVIRONMENTS, "env.step(0)", "env.step(0)\n    env.close()"),
        (CACHE, "maxsize=None", "maxsize=3"),
        (HISTORY, "self.history = []",
         "import collections; self.history = collections.deque(maxlen=3)"),
    ],
    ids=["figures", "environments", "cache", "history"],
)  # fmt: skip
def test_with_that_change_it_leaks_no_more(
    tmp_path: Path, program: str, old: str, new: str
) -> None:
    assert program.count(old) == 1
    diagnosis = diagnosis_of(tmp_path, program.replace(old, new))
    # what was freed may stay with malloc: nothing of the program holds it
    causes = {one["cause"] for one in diagnosis["findings"] if one["kind"] == "leak"}
    assert causes <= {"allocator-retention"}, diagnosis["reason"]
