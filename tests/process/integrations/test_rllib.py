"""MemoryCallbacks with real RLlib: `make test-ray` runs these; elsewhere they say why not."""

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import PROGRAMS

PROGRAM = PROGRAMS / "rllib_leak.py"

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


def train(tmp_path: Path, *options: str) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *options], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout


def python(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)


@needs_ray
def test_one_leaking_runner_of_four_is_found_and_named(tmp_path: Path) -> None:
    found, out = train(tmp_path, "--leak", "3", "--iterations", "30")
    diagnosis = found["diagnosis"]
    verdicts = {w["name"]: w["verdict"] for w in diagnosis["facts"]["workers"]}
    assert verdicts.pop("env runner 3") == "leak", out
    assert set(verdicts) == {"driver", "env runner 1", "env runner 2", "env runner 4",
                             "object store"}  # fmt: skip
    assert set(verdicts.values()) == {"healthy"}, out
    leak = diagnosis["findings"][0]
    assert "history" in leak["culprit"]["path"]
    # 100 steps an iteration, 16,000 bytes each
    assert leak["bytes_per_generation"] == pytest.approx(1_600_000, rel=0.15)
    memory = found["memory"]
    assert memory["processes"] == 5
    assert memory["env_runners"]["growth_max_name"] == "env runner 3"
    assert memory["object_store"]["capacity_bytes"] == 150_000_000
    node = next(iter(memory["nodes"].values()))
    assert 0 < node["used_bytes"] < node["kill_bytes"] < node["limit_bytes"]


@needs_ray
def test_two_nodes_have_names_limits_and_stores_of_their_own(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    # short, for sockets; of its own, or every ray.init() on this machine would find the cluster
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        check_two_nodes(tmp_path_factory.mktemp("two"), os.environ | {"RAY_TMPDIR": folder})


def check_two_nodes(tmp_path: Path, settings: dict[str, str]) -> None:
    options = ["--nodes", "2", "--leak", "3", "--iterations", "30"]
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *options],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings,
    )  # fmt: skip
    assert process.stdout is not None
    address = process.stdout.readline().split()[-1]
    watched: dict[str, Any] = {}
    for _ in range(40):  # until the runners are there
        look = [sys.executable, "-m", "ramledger", "watch", "--ray", address, "--once", "--json"]
        done = subprocess.run(look, capture_output=True, text=True, env=settings)
        watched = json.loads(done.stdout) if done.returncode == 0 else watched
        if len(_runners(watched)) == 4 or process.poll() is not None:
            break
    out, errors = process.communicate()
    assert process.returncode == 0, errors[-3000:]
    found = json.loads(out.splitlines()[-1])
    nodes = found["memory"]["nodes"]
    assert len(nodes) == 2
    assert all("store_bytes" in facts and "kill_bytes" in facts for facts in nodes.values())
    workers = {w["name"]: w for w in found["diagnosis"]["facts"]["workers"]}
    assert workers["env runner 3"]["verdict"] == "leak", out
    assert {w["verdict"] for name, w in workers.items() if name != "env runner 3"} == {"healthy"}
    assert {workers[f"env runner {n}"]["node"] for n in range(1, 5)} == set(nodes)
    assert {"pinned_bytes", "spilled_bytes"} <= found["memory"]["object_store"].keys()
    runners = _runners(watched)
    assert len(runners) == 4, done.stderr
    assert {row["command"].split()[0] for row in runners} == set(nodes)
    assert {row["limit"]["source"] for row in runners} == {
        f"Ray's memory monitor on {node}" for node in nodes
    }


def _runners(watched: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in watched.get("processes", ()) if "env runner (pid" in row["command"]]


@needs_ray
def test_an_address_without_a_cluster_is_one_clear_line() -> None:
    look = [sys.executable, "-m", "ramledger", "watch", "--ray", "127.0.0.1:1", "--once"]
    done = subprocess.run(look, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no Ray cluster answers at 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


@needs_ray
def test_a_recording_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--runners", "1", "--recording", "/proc/x.ledger.jsonl"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "RecordingError: cannot write /proc/x.ledger.jsonl" in done.stderr


@needs_ray
def test_callbacks_can_be_pickled_and_refuse_unknown_options() -> None:
    code = (
        "import pickle\n"
        "from ramledger.errors import ConfigError\n"
        "from ramledger.integrations.rllib import MemoryCallbacks\n"
        "assert pickle.loads(pickle.dumps(MemoryCallbacks())).diagnosis is None\n"
        "from ray import cloudpickle\n"
        "again = cloudpickle.loads(cloudpickle.dumps(MemoryCallbacks.options(every_seconds=3.0)))\n"
        "assert again().every_seconds == 3.0\n"
        "for wrong in ({'speed': 1}, {'every_seconds': 0}):\n"
        "    try:\n"
        "        MemoryCallbacks.options(**wrong)\n"
        "    except ConfigError as error:\n"
        "        print(error)\n"
    )
    done = python(code)
    assert done.stdout.splitlines() == [
        "MemoryCallbacks has no option 'speed'",
        "every_seconds must be positive",
    ], done.stderr


APPLIED = """
import json, ray
from ray.rllib.algorithms.ppo import PPOConfig
import ramledger
from ramledger.integrations.rllib import MemoryCallbacks

def in_force(*_):
    from ramledger.remedies.start import _in_force
    return dict(_in_force)

quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
hook = {"worker_process_setup_hook": lambda: ramledger.apply("threads")}
ray.init(num_cpus=3, object_store_memory=100_000_000, runtime_env=hook, **quiet)
task = ray.get(ray.remote(in_force).remote())
callbacks = MemoryCallbacks.options(apply="malloc,replay", force=True)
config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=1)
config = config.learners(num_learners=1).callbacks(callbacks)
algorithm = config.build_algo()
runners = algorithm.env_runner_group.foreach_env_runner(in_force, local_env_runner=False)
learners = [one.get() for one in algorithm.learner_group.foreach_learner(in_force)]
algorithm.stop()
ray.shutdown()
print(json.dumps([task, runners, learners, in_force()]))
"""


@needs_ray
def test_remedies_reach_every_process(tmp_path: Path) -> None:
    done = python(APPLIED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    task, runners, learners, driver = json.loads(done.stdout.splitlines()[-1])
    asked = {"malloc": "", "replay": ""}
    assert task == {"threads": ""}
    assert runners == learners == [{"threads": ""} | asked]
    assert driver == asked
    assert "ramledger: malloc" not in done.stdout  # it could be applied everywhere


@needs_ray
def test_an_unknown_remedy_is_refused_before_the_cluster_starts() -> None:
    done = python(
        "from ramledger.integrations.rllib import MemoryCallbacks\n"
        "MemoryCallbacks.options(apply='reply')"
    )
    assert "there is no remedy 'reply'" in done.stderr


@pytest.mark.skipif(find_spec("ray") is not None, reason="ray is installed")
def test_without_ray_one_line_says_what_to_install() -> None:
    done = python("import ramledger.integrations.rllib")
    assert "ConfigError: ray is not installed" in done.stderr


def test_a_ray_that_is_too_old_is_named(tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("__version__ = '2.3.0'\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport ramledger.integrations.rllib"
    assert "ConfigError: ray 2.3.0 is too old" in python(code).stderr
