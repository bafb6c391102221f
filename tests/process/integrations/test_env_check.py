"""One environment alone: leaking resets, leaking constructors, healthy ones, and bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RAMLEDGER = Path(sys.executable).with_name("ramledger")
ENVS = """
import atexit, sys
import gymnasium, numpy as np
class Fine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (64,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self):
        self.history = []
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n = 0
        self.history = [np.ones(50_000)]
        return np.zeros(64, np.float32), {}
    def step(self, action):
        self.n += 1
        return np.ones(64, np.float32), 1.0, self.n >= 20, False, {}
class KeepsEpisodes(Fine):
    def reset(self, **kwargs):
        kept = self.history if self.history else []
        found = super().reset(**kwargs)
        self.history = kept + [np.ones(25_000)]
        return found
REGISTRY = []
class NeverFreed(Fine):
    def __init__(self):
        super().__init__()
        self.textures = np.ones(40_000)
        REGISTRY.append(self)
class Broken(Fine):
    def step(self, action):
        raise RuntimeError("no more quotes\\nsince noon")
class Chatty(Fine):
    def reset(self, **kwargs):
        print("7" * 100_000)
        return super().reset(**kwargs)
    def close(self):
        atexit.register(print, "bye")
class Leaves(Fine):
    def reset(self, **kwargs):
        sys.exit(0)
def forgets_to_return():
    Fine()
"""


def check(tmp_path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    (tmp_path / "envs.py").write_text(ENVS)
    return subprocess.run(
        [RAMLEDGER, "check-env", *words, "--json"], cwd=tmp_path, capture_output=True, text=True
    )


def test_resets_that_leak(tmp_path: Path) -> None:
    done = check(tmp_path, "envs:KeepsEpisodes")
    document = json.loads(done.stdout)
    assert (done.returncode, document["verdict"]) == (3, "leak")
    [rate] = document["bytes_per_reset"]
    assert 0.8 * 200_000 < rate < 1.2 * 200_000
    [finding] = [f for f in document["diagnosis"]["findings"] if f["kind"] == "leak"]
    assert finding["culprit"]["path"].startswith("env")
    assert document["steps"] == 200 * 20


def test_an_environment_that_is_never_freed_leaks_only_when_it_is_made_anew(
    tmp_path: Path,
) -> None:
    assert check(tmp_path, "envs:NeverFreed").returncode == 0
    done = check(tmp_path, "envs:NeverFreed", "--rebuild")
    assert done.returncode == 3
    [finding] = [f for f in json.loads(done.stdout)["diagnosis"]["findings"] if f["kind"] == "leak"]
    assert "NeverFreed" in finding["culprit"]["type"]


@pytest.mark.parametrize("words", [["envs:Fine"], ["envs:Chatty"], ["CartPole-v1", "--rebuild"]])
def test_healthy_ones(tmp_path: Path, words: list[str]) -> None:
    done = check(tmp_path, *words)
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "healthy"), done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["envs:Broken"], "RuntimeError: no more quotes since noon (envs.py:"),
        (["envs:Leaves"], "ended the process before its episodes were over"),
        (["envs:forgets_to_return"], "of type NoneType, without reset()"),
        (["envs:Missing"], "envs has no function or class 'Missing'"),
        (["envs.py:Fine"], "write the module without .py"),
        (["nowhere:make"], "nowhere"),
        (["NoSuchEnv-v0"], "NoSuchEnv"),
        (["envs:Fine", "--resets", "3"], "resets must be at least 20"),
    ],
)
def test_bad_input_is_one_line_with_a_hint(tmp_path: Path, words: list[str], said: str) -> None:
    done = check(tmp_path, *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "hint: " in done.stderr
