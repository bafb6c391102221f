"""Every check there is: a script that it speaks up for, at the line where the cause stands."""

import re
from pathlib import Path

import pytest

from ramledger.plan.baseline import shipped_baseline
from ramledger.plan.budget import Check, Severity
from ramledger.plan.checks import CHECKS, checks_table, range_checks
from ramledger.plan.make_plan import plan
from ramledger.plan.plan_config import config_from
from ramledger.plan.predict import Setting
from ramledger.plan.sources.any_source import read_source
from ramledger.plan.sources.source_result import SearchRange
from tests.support.places import ROOT

PLAN = ROOT / "src" / "ramledger" / "plan"
SETTING = Setting(shipped_baseline())
HEAD = """\
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack
import torch
"""
# the check's id, its severity, what is written, and the line (counted from there) it points to
CASES: list[tuple[str, str, int, str]] = [
    ("batch-larger-than-buffer", "error", 1,
     'm = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=128)\nm.learn(10**5)'),
    ("batch-larger-than-buffer", "error", 1,
     'm = DQN("MlpPolicy", "CartPole-v1", buffer_size=64, batch_size=128)\nm.learn(10**5)'),
    ("batch-not-dividing", "warning", 1,
     'm = PPO("MlpPolicy", "CartPole-v1", n_steps=100, batch_size=64)\nm.learn(10**5)'),
    ("less-than-one-rollout", "warning", 2, 'm = PPO("MlpPolicy", "CartPole-v1")\nm.learn(500)'),
    ("never-learns", "error", 1,
     'm = DQN("MlpPolicy", "CartPole-v1", learning_starts=5000)\nm.learn(500)'),
    ("buffer-never-full", "note", 1,
     'm = SAC("MlpPolicy", "Pendulum-v1", buffer_size=10**6)\nm.learn(500)'),
    ("frame-stack", "note", 2,
     'env = make_atari_env("PongNoFrameskip-v4", n_envs=1)\nenv = VecFrameStack(env, 4)\n'
     'm = DQN("CnnPolicy", env, buffer_size=10**5)\nm.learn(10**6)'),
    ("reservation-refused", "error", 1,
     'm = DQN("CnnPolicy", "CarRacing-v3", buffer_size=200_000)\nm.learn(1000)'),
    ("replay-next-obs", "note", 1,
     'm = SAC("MlpPolicy", "Humanoid-v5", buffer_size=10**6)\nm.learn(10**7)'),
    ("replay-options-contradict", "error", 1,
     'm = DQN("MlpPolicy", "CartPole-v1", optimize_memory_usage=True)\nm.learn(10**7)'),
    ("rollout-float32", "warning", 1,
     'm = PPO("CnnPolicy", "PongNoFrameskip-v4")\nm.learn(10**7)'),
    ("rollout-swap-copy", "warning", 1,
     'env = make_atari_env("PongNoFrameskip-v4", n_envs=16)\n'
     'm = PPO("CnnPolicy", env)\nm.learn(10**7)'),
    ("subproc-start-method", "warning", 1,
     'env = SubprocVecEnv([lambda: gym.make("CartPole-v1") for _ in range(4)])\n'
     'm = PPO("MlpPolicy", env)\nm.learn(10**7)'),
    ("thread-oversubscription", "warning", 1,
     'torch.set_num_threads(12)\nm = PPO("MlpPolicy", "CartPole-v1")\nm.learn(10**7)'),
    ("few-envs", "note", 1, 'm = PPO("MlpPolicy", "CartPole-v1")\nm.learn(10**7)'),
    ("callback-not-registered", "error", 2,
     'm = PPO("MlpPolicy", "CartPole-v1")\nc = EvalCallback(None)\nm.learn(10**7)'),
    ("no-replay-buffer", "error", 1,
     'm = PPO("MlpPolicy", "CartPole-v1", buffer_size=100)\nm.learn(10**7)'),
    ("no-replay-buffer", "note", 2,
     'm = PPO("MlpPolicy", "CartPole-v1")\n'
     'c = CheckpointCallback(500, ".", save_replay_buffer=True)\nm.learn(10**7, callback=c)'),
    ("no-target-network", "error", 1,
     'm = PPO("MlpPolicy", "CartPole-v1", tau=0.01)\nm.learn(10**7)'),
    ("save-replay-cost", "warning", 2,
     'm = SAC("MlpPolicy", "Pendulum-v1")\n'
     'c = CheckpointCallback(500, ".", save_replay_buffer=True)\nm.learn(10**7, callback=c)'),
    ("save-frequency", "note", 3,
     'env = make_vec_env("CartPole-v1", n_envs=4)\nm = PPO("MlpPolicy", env)\n'
     'c = CheckpointCallback(save_freq=500, save_path=".")\nm.learn(10**7, callback=c)'),
    ("never-saves", "warning", 2,
     'm = PPO("MlpPolicy", "CartPole-v1")\nc = CheckpointCallback(10**6, ".")\n'
     "m.learn(10**5, callback=c)"),
    ("search-range", "error", 2,
     'def objective(trial):\n    n = trial.suggest_int("n_envs", 4, 15)\n'
     '    env = make_atari_env("PongNoFrameskip-v4", n_envs=n)\n'
     '    m = PPO("CnnPolicy", env, n_steps=2**15)\n    m.learn(10**7)'),
    ("search-range", "note", 2,
     'def objective(trial):\n    n = trial.suggest_int("n_steps", 4, 6)\n'
     '    m = PPO("MlpPolicy", "CartPole-v1", n_steps=2**n, batch_size=16)\n    m.learn(10**7)'),
    ("thread-oversubscription", "warning", 2,
     'def objective(trial):\n    n = trial.suggest_int("thread_num", 4, 15)\n'
     '    torch.set_num_threads(n)\n    m = PPO("MlpPolicy", "CartPole-v1")\n    m.learn(10**7)'),
    ("episode-longer-than-rollout", "note", 1,
     'm = PPO("MlpPolicy", "CartPole-v1", n_steps=100, batch_size=10)\nm.learn(10**7)'),
    ("rollout-longer-than-episodes", "note", 1,
     'm = PPO("MlpPolicy", "CartPole-v1", n_steps=4096)\nm.learn(10**7)'),
    ("elegantrl-buffer", "note", 4,
     'from elegantrl.agents import AgentTD3\n'
     'args = Config(AgentTD3, None, {"env_name": "x", "num_envs": 4, "state_dim": 3,\n'
     '    "action_dim": 1, "if_discrete": False})\nargs.buffer_size = 1000'),
    ("vram-unknown", "note", 1,
     'm = PPO("MlpPolicy", "CartPole-v1", device="cuda")\nm.learn(10**7)'),
]  # fmt: skip
GIVEN: dict[str, dict[str, object]] = {
    "rollout-float32": {"versions": {"stable_baselines3": "2.7.0"}},
    "episode-longer-than-rollout": {"episode_length": 500},
    "reservation-refused": {"action": "discrete:5"},
    "rollout-longer-than-episodes": {"episode_length": 500},
}


def checks(tmp_path: Path, text: str, given: dict[str, object]) -> tuple[Check, ...]:
    path = tmp_path / "train.py"
    path.write_text(HEAD + text, encoding="utf-8")
    machine = {"machine": {"ram": "4GiB", "cores": 4}}
    return plan(read_source(str(path), given={**machine, **given}), setting=SETTING).checks


@pytest.mark.parametrize(("name", "severity", "line", "text"), CASES)
def test_it_is_found_where_it_stands(
    tmp_path: Path, name: str, severity: str, line: int, text: str
) -> None:
    every = checks(tmp_path, text, GIVEN.get(name, {}))
    found = [check for check in every if check.id == name]
    assert found, [check.id for check in every]
    (check,) = found
    assert check.severity == severity
    assert check.where == f"{tmp_path / 'train.py'}:{HEAD.count(chr(10)) + line}"
    assert check.severity in CHECKS[name][0]
    assert len(check.message) > 20
    assert check.fix
    order = [list(Severity).index(check.severity) for check in every]
    assert order == sorted(order)


_CHECK = r"Check\(\s*\"([a-z0-9-]+)\""


def test_every_check_is_listed_tested_and_documented() -> None:
    rehearsed = PLAN / "rehearsed_budget.py"
    sources = {path: path.read_text(encoding="utf-8") for path in PLAN.rglob("*.py")}
    page = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
    of_rehearsals = re.findall(_CHECK, sources.pop(rehearsed))
    assert of_rehearsals
    assert all(f"`{name}`" in page for name in of_rehearsals)
    code = "\n".join(sources.values())
    written = re.findall(_CHECK, code)
    chosen = re.findall(r"\"([a-z-]+)\" if name != \"buffer_size\" else \"([a-z-]+)\"", code)
    assert {*written, *(name for pair in chosen for name in pair)} == set(CHECKS)
    assert {case[0] for case in CASES} == set(CHECKS)
    assert checks_table() in page


def test_a_corner_that_cannot_be_planned_says_so() -> None:
    config = config_from({"observation": "8", "action": "discrete:2"})
    ranges = (SearchRange("observation", "8", "8x8:uint9", "train.py:7", 7),)
    (check,) = range_checks(config, ranges, SETTING)
    assert (check.id, check.severity, check.where) == ("search-range", "warning", "train.py:7")
    assert "uint9" in check.message


def test_threads_that_are_one_already_are_not_blamed(tmp_path: Path) -> None:
    text = (
        "torch.set_num_threads(1)\nenv = SubprocVecEnv([f for _ in range(20)])\n"
        'm = PPO("MlpPolicy", env)\nm.learn(10**7)'
    )
    given: dict[str, object] = {"observation": "4", "action": "discrete:2"}
    (check,) = [c for c in checks(tmp_path, text, given) if c.id == "thread-oversubscription"]
    assert "set_num_threads" not in check.fix
    assert check.fix == "4 workers"


def test_choices_inside_expressions_have_corners(tmp_path: Path) -> None:
    text = """
def objective(trial):
    width = trial.suggest_categorical("width", [256, 1024])
    power = trial.suggest_int("power", 5, 9)
    count = trial.suggest_int("envs", low=2, high=6)
    env = DummyVecEnv([f for _ in range(count)])
    kwargs = dict(net_arch=[width] * 2)
    m = PPO("MlpPolicy", env, batch_size=2**power, policy_kwargs=kwargs)
    m.learn(10**6)
"""
    path = tmp_path / "train.py"
    path.write_text(HEAD + text)
    given = {"observation": "4", "action": "discrete:2"}
    reading = read_source(str(path), given=given)
    found = {r.field: (r.low, r.high) for r in reading.ranges}
    assert found == {
        "net_arch": ([256, 256], [1024, 1024]), "batch_size": (32, 512), "n_envs": (2, 6),
    }  # fmt: skip
    assert not reading.unresolved
