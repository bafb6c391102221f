"""`ramledger plan` on real files: text, JSON, exit codes, zoo files, probes, networks, diffs."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ramledger.plan.make_plan import plan_each

RAMLEDGER = Path(sys.executable).with_name("ramledger")
PONG = """\
algorithm = "DQN"
env = "PongNoFrameskip-v4"
policy = "CnnPolicy"
frame_stack = 4
buffer_size = 100_000
total_steps = 1_000_000
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pong.toml").write_text(PONG)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "COLUMNS": "120",
        # what --calibrate kept on the machine that tests is nobody's business here
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    command = [str(RAMLEDGER), "plan", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


def document(folder: Path, *arguments: str) -> dict[str, Any]:
    done = run(folder, *arguments, "--json")
    assert done.returncode in (0, 3), done.stderr
    assert not done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_fits(folder: Path) -> None:
    done = run(folder, "pong.toml", "--ram", "16GiB")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("fits")
    assert "replay/next_observations" in done.stdout
    assert "100,000 transitions × 84×84×4 × 1 B" in done.stdout
    assert "buffer full after 100,000 steps" in done.stdout


def test_it_does_not_fit(folder: Path) -> None:
    done = run(folder, "pong.toml", "--ram", "4GiB")
    assert done.returncode == 3
    assert done.stdout.startswith("does not fit")
    assert "too much" in done.stdout
    found = document(folder, "pong.toml", "--ram", "4GiB")
    assert not found["fits"]
    first = found["recommendations"][0]
    assert "It then fits." in first["why"]
    changes = [f"--set={key}={value}" for key, value in first["set"].items()]
    assert document(folder, "pong.toml", "--ram", "4GiB", *changes)["fits"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["pong.toml", "--ram", "32 GBB"], "GBB"),
        (["gone.toml"], "gone.toml"),
        (["pong.toml", "--set", "bufer_size=3"], "bufer_size"),
        (["pong.toml", "--maximize", "gamma"], "gamma"),
        (["pong.toml", "--obs", "84xx"], "84xx"),
        (["pong.toml", "--apply", "replya"], "replya"),
        (["--rehearse", "5s", "--apply", "auto", "--", "true"], "--apply"),
        ([], "observation"),
    ],
)
def test_errors_are_one_line_and_a_hint(folder: Path, arguments: list[str], named: str) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert named in lines[0]
    assert lines[1].startswith("  hint: ")


def test_set_and_fit(folder: Path) -> None:
    small = document(folder, "pong.toml", "--set", "buffer_size=10_000", "--ram", "16GiB")
    large = document(folder, "pong.toml", "--ram", "16GiB", "--maximize", "buffer_size")
    assert small["peak_bytes"] < large["peak_bytes"]
    found = large["fit"]["buffer_size"]
    assert found["largest"] > 100_000
    assert found["ram"]["high_bytes"] <= 16 << 30
    assert "fit: buffer_size up to" in run(folder, "pong.toml", "--ram", "16GiB", "--fit").stdout


def test_a_plan_with_a_remedy_in_force(folder: Path) -> None:
    as_it_is = document(folder, "pong.toml", "--ram", "16GiB")
    applied = document(folder, "pong.toml", "--ram", "16GiB", "--apply", "replay")
    promised = next(one for one in as_it_is["recommendations"] if one["apply"] == "replay")
    saved = as_it_is["ram"]["needed_bytes"] - applied["ram"]["needed_bytes"]
    assert saved == promised["saves_bytes"] > 0


def test_options_change_one_key_of_a_table(folder: Path) -> None:
    (folder / "job.toml").write_text(
        PONG + "[machine]\nram = '8GiB'\nvram = '4GiB'\n[callbacks]\nsave_replay_buffer = true\n"
    )
    arguments = ["job.toml", "--ram", "16GiB", "--set", "callbacks.checkpoint_every=100"]
    found = document(folder, *arguments)["config"]
    assert found["machine"] | {"cores": 0} == {"ram": 16 << 30, "vram": "4GiB", "cores": 0}
    assert found["callbacks"]["save_replay_buffer"]
    assert found["callbacks"]["checkpoint_every"] == 100


def test_a_difference(folder: Path) -> None:
    (folder / "half.toml").write_text('include = "pong.toml"\nbuffer_size = 50_000\n')
    done = run(folder, "pong.toml", "--diff", "half.toml", "--ram", "16GiB")
    assert "replay/observations" in done.stdout
    assert "networks/q_net" not in done.stdout
    both = document(folder, "pong.toml", "--diff", "half.toml", "--ram", "16GiB")
    assert both["this"]["peak_bytes"] > both["other"]["peak_bytes"]


ZOO = """\
defaults: &defaults
  n_timesteps: !!float 1e6
  policy: 'MlpPolicy'
Pendulum-v1:
  <<: *defaults
  n_envs: 4
  n_steps: 1024
  policy_kwargs: "dict(net_arch=dict(pi=[256, 256], vf=[64]), activation_fn=nn.ReLU)"
  learning_rate: lin_3e-4
CarRacing-v2:
  env_wrapper:
    - rl_zoo3.wrappers.FrameSkip:
        skip: 2
    - rl_zoo3.wrappers.YAMLCompatResizeObservation:
        shape: [64, 64]
    - gymnasium.wrappers.transform_observation.GrayscaleObservation:
        keep_dim: true
  frame_stack: 2
  policy: 'CnnPolicy'
  n_envs: 8
  n_steps: 512
  n_timesteps: !!float 4e6
donkey-generated-track-v0:
  env_wrapper:
    - ae.wrapper.AutoencoderWrapper
  policy: 'MlpPolicy'
  n_timesteps: !!float 5e6
atari:
  env_wrapper:
    - stable_baselines3.common.atari_wrappers.AtariWrapper
  frame_stack: 4
  policy: 'CnnPolicy'
  n_envs: 8
  n_steps: 128
  batch_size: 256
  n_timesteps: !!float 1e7
"""


def test_a_zoo_file(folder: Path) -> None:
    (folder / "ppo.yml").write_text(ZOO)
    done = run(folder, "ppo.yml", "--ram", "16GiB")
    assert done.returncode == 0, done.stderr
    assert "Pendulum-v1" in done.stdout
    assert "not planned: defaults" in done.stdout
    found = document(folder, "ppo.yml", "--env", "Pendulum-v1", "--ram", "16GiB")
    assert found["config"]["net_arch"] == {"pi": [256, 256], "vf": [64]}
    assert found["training"]["steps_per_iteration"] == 4096
    racing = document(folder, "ppo.yml", "--env", "CarRacing-v2", "--ram", "16GiB")
    (row,) = [r for r in racing["accounts"] if r["account"] == "rollout/observations"]
    assert row["bytes"] == 8 * 512 * 64 * 64 * 2
    assert "not planned: donkey-generated-track-v0" in done.stdout
    pong = document(folder, "ppo.yml", "--env", "PongNoFrameskip-v4", "--ram", "16GiB")
    (row,) = [r for r in pong["accounts"] if r["account"] == "rollout/observations"]
    assert row["bytes"] == 8 * 128 * 84 * 84 * 4


def test_every_file_of_the_zoo_goes_through() -> None:
    zoo = find_spec("rl_zoo3")
    if zoo is None or zoo.origin is None:
        pytest.skip("rl-zoo3 brings many packages, and is installed by hand")
    planned = refused = 0
    for path in sorted(Path(zoo.origin).parent.glob("hyperparams/*.yml")):
        whole = plan_each(str(path), {"machine": {"ram": "16GiB"}})
        assert whole is not None
        planned += len(whole[0])
        refused += len(whole[1])
    assert planned > 200
    assert refused < planned / 10


def test_an_rllib_dump(folder: Path) -> None:
    dump = {
        "algo_class": "<class 'ray.rllib.algorithms.ppo.ppo.PPO'>", "env": "CartPole-v1",
        "num_env_runners": 3, "num_envs_per_env_runner": 2, "train_batch_size": 4000,
        "minibatch_size": 128, "num_epochs": 30, "rollout_fragment_length": "auto",
        "model": {"fcnet_hiddens": [32, 32]}, "lr": 5e-5, "observation_space": None,
    }  # fmt: skip
    (folder / "params.json").write_text(json.dumps(dump))
    found = document(folder, "params.json", "--ram", "16GiB")
    assert found["config"]["framework"] == "rllib"
    assert found["training"]["batches_per_epoch"] == 32
    assert any(row["where"] == "workers" for row in found["accounts"])


ENVS = """\
import numpy as np
import gymnasium

class Room(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (40, 50, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(5)
    def __init__(self):
        self.map = np.ones(32 << 20, np.uint8)
        self.at = 0
    def reset(self, *, seed=None, options=None):
        print("a print of its own")
        self.at = 0
        return self.observation_space.sample(), {}
    def step(self, action):
        self.at += 1
        return self.observation_space.sample(), 0.0, self.at >= 37, False, {}

def broken():
    raise RuntimeError("no such room")
"""


def test_a_probe_measures_the_environment(folder: Path) -> None:
    pytest.importorskip("gymnasium")
    (folder / "rooms.py").write_text(ENVS)
    arguments = ["--set", "algorithm=PPO", "--set", "n_envs=3", "--ram", "16GiB"]
    whole = document(folder, *arguments, "--probe", "rooms:Room")
    found = whole["config"]
    assert (found["observation"], found["action"]) == ("40x50x3:uint8", "discrete:5")
    assert found["episode_length"] == 37
    assert 32 << 20 <= found["env_memory"] < 36 << 20
    # a policy was built on it, acted, and its process was looked at
    assert found["trained_parameters"] is None
    assert whole["training"]["seconds_until_full"] > 0
    (imports,) = [r for r in whole["accounts"] if r["account"] == "imports/torch and framework"]
    assert "rooms:Room" in imports["formula"]
    assert 150 << 20 < imports["bytes"] < 500 << 20
    for name, message in (("rooms:broken", "no such room"), ("rooms", "must be module:function")):
        done = run(folder, *arguments, "--probe", name)
        assert done.returncode == 1
        assert message in done.stderr


NETS = """\
import torch

def wide():
    return torch.nn.Linear(1000, 500, bias=False)
"""


def test_a_network_of_your_own_is_sized_by_torch(folder: Path) -> None:
    pytest.importorskip("torch")
    (folder / "nets.py").write_text(NETS)
    arguments = ["--set", "algorithm=PPO", "--obs", "1000", "--action", "discrete:2"]
    sizes = {}
    for batch in (100, 1100):
        batched = [*arguments, "--set", f"batch_size={batch}", "--ram", "16GiB"]
        found = document(folder, *batched, "--network", "nets:wide")
        assert found["config"]["trained_parameters"] == 500_000
        sizes[batch] = found["config"]["activation_bytes"]
    gradient = 500_000 * 4
    assert sizes[100] >= 2 * gradient
    # a sample more: its input, its output and the output's gradient at most twice
    growth = (sizes[1100] - sizes[100]) / 1000
    assert (1000 + 500) * 4 - gradient / 1000 <= growth <= (2 * 1000 + 4 * 500) * 4


def test_calibration_is_kept_and_used(folder: Path) -> None:
    pytest.importorskip("torch")
    before = document(folder, "pong.toml", "--ram", "16GiB")
    done = run(folder, "--calibrate")
    assert done.returncode == 0, done.stderr
    assert list((folder / "cache" / "ramledger").glob("baseline-*.json"))
    after = document(folder, "pong.toml", "--ram", "16GiB")
    rows = [
        next(r for r in found["accounts"] if r["account"] == "imports/torch and framework")
        for found in (before, after)
    ]
    assert "measured on this machine" in rows[1]["formula"]
    assert (
        rows[1]["high_bytes"] - rows[1]["low_bytes"] < rows[0]["high_bytes"] - rows[0]["low_bytes"]
    )
    assert 0.5 < rows[1]["bytes"] / rows[0]["bytes"] < 2


TRAINING = """\
import sys
import numpy as np
import ramledger

job = {"algorithm": "DQN", "observation": "1000", "action": "discrete:2", "buffer_size": 10_000}
ledger = ramledger.record(plan=ramledger.plan(job), **eval(sys.argv[1]))

class Buffer:
    def __init__(self):
        self.observations = np.ones((10_000, 1000), np.float32)
        self.next_observations = np.ones((10_000, 1000), np.float32)

replay = Buffer()
ledger.claim("replay", replay)
for generation in range(3):
    with ledger.phase("train", generation=generation):
        replay.observations += 1
"""


def test_a_run_grades_its_plan(folder: Path) -> None:
    (folder / "train.py").write_text(TRAINING)
    command = [str(RAMLEDGER), "run", "--json", "--out", "a.ledger.jsonl", "--"]
    command += [sys.executable, "train.py", "{}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    rows = {row["account"]: row for row in json.loads(done.stdout)["plan"]}
    assert rows["replay"]["verdict"] == "close"
    assert rows["imports and libraries"]["verdict"] == "too high"
    assert rows["peak of all processes"]["planned_bytes"] > 80_000_000
    alone = "dict(out='b.ledger.jsonl')"
    subprocess.run([sys.executable, "train.py", alone], cwd=folder, check=True, timeout=120)
    events = [json.loads(line) for line in (folder / "b.ledger.jsonl").read_text().splitlines()]
    (event,) = [event for event in events if event.get("event") == "plan"]
    assert event["plan"]["schema"] == "ramledger.plan/1"


def test_a_plan_without_a_recording_is_refused(folder: Path) -> None:
    (folder / "train.py").write_text(dedent(TRAINING))
    done = subprocess.run(
        [sys.executable, "train.py", "{}"], cwd=folder, capture_output=True, text=True
    )
    assert "nothing is recorded here" in done.stderr
