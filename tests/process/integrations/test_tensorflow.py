"""TensorFlow through the real commands: what leaks is named, what is cached is healthy.

`make test-tensorflow` runs these; elsewhere they say why not.
"""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import TESTS

PROGRAMS = TESTS / "programs" / "tensorflow_leaks"
COMMAND = Path(sys.executable).with_name("ramledger")

pytestmark = pytest.mark.skipif(
    find_spec("tensorflow") is None, reason="tensorflow is not installed: make test-tensorflow"
)


def recorded(name: str, tmp_path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The diagnosis of a program, and its looks."""
    out = tmp_path / "run.ledger.jsonl"
    program = str(PROGRAMS / f"{name}.py")
    command = [str(COMMAND), "run", "--quiet", "--out", str(out), "--", sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    said = subprocess.run([COMMAND, "diagnose", "--json", out], capture_output=True, text=True)
    assert said.returncode in (0, 3), said.stderr
    events = [json.loads(line) for line in out.read_text().splitlines()]
    return json.loads(said.stdout), [e for e in events if e.get("event") == "snapshot"]


def expected(name: str) -> dict[str, str]:
    text = (PROGRAMS / f"{name}.py").read_text()
    return dict(re.findall(r"^  (\w+): (.+)$", text, re.MULTILINE))


@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("leaky_*.py")))
def test_a_leak_of_tensorflow_is_named(name: str, tmp_path: Path) -> None:
    wanted = expected(name)
    diagnosis, _ = recorded(name, tmp_path)
    assert diagnosis["verdict"] == "leak", diagnosis["reason"]
    leak = diagnosis["findings"][0]
    assert leak["cause"] == wanted["cause"]
    assert wanted["culprit"] in leak["culprit"]["type"]
    assert leak["culprit"]["path"] == wanted["path"]
    assert leak["fault"] in ("your code", "environment")
    if "advice" in wanted:
        assert wanted["advice"] in leak["advice"]


@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("healthy_*.py")))
def test_warm_up_and_cached_graphs_are_healthy(name: str, tmp_path: Path) -> None:
    diagnosis, looks = recorded(name, tmp_path)
    assert diagnosis["verdict"] == "healthy", diagnosis["reason"]
    last = looks[-1]["tensorflow"]
    assert last["graphs"] < 100
    assert last["variables"] > 0


def test_tensors_variables_and_graphs_have_accounts(tmp_path: Path) -> None:
    code = (
        "import json, ramledger\n"
        "ledger = ramledger.record('own.ledger.jsonl')\n"
        "import keras, numpy as np, tensorflow as tf\n"
        "model = keras.Sequential([keras.layers.Input((512,)), keras.layers.Dense(1024)])\n"
        "model.compile('adam', 'mse')\n"
        "model.fit(np.zeros((8, 512)), np.zeros((8, 1024)), verbose=0)\n"
        "tensors = [tf.ones((1024, 256)) for _ in range(5)]\n"
        "plain = tf.Variable(tf.zeros((1024, 512)))\n"
        "@tf.function\n"
        "def twice(n, x): return x * n\n"
        "for n in range(6): twice(n, tensors[0])\n"
        "found = ledger.snapshot()\n"
        "print(json.dumps({'accounts': {e.account: e.resident_bytes for e in found.entries},\n"
        "    'facts': found.facts['tensorflow'], 'rss': found.rss_bytes,\n"
        "    'unexplained': found.unexplained_bytes}))\n"
    )
    found = run(code, tmp_path)
    accounts, facts = found["accounts"], found["facts"]
    parameters = (512 + 1) * 1024 * 4
    sizes = {
        "networks/model": parameters,
        "optimizer": 2 * parameters,
        "variables/<string>:tensors": 5 << 20,
        "variables/<string>:plain": 2 << 20,
    }
    for account, size in sizes.items():
        near = next(n for name, n in accounts.items() if name.endswith(account.rpartition(":")[2]))
        assert near == pytest.approx(size, rel=0.1), account
    assert accounts["tensorflow/graphs"] > 100_000
    assert sum(accounts.values()) + found["unexplained"] == found["rss"]
    twice = next(row for row in facts["functions"] if row["name"].endswith(":twice"))
    assert (twice["graphs"], twice["instances"], twice["varies"]) == (6, 1, ["n: Python int"])
    assert facts["eager_bytes"] >= 5 << 20
    assert facts["variable_bytes"] >= 3 * parameters + (2 << 20)


def test_looking_traces_nothing_and_keeps_nothing_alive(tmp_path: Path) -> None:
    code = (
        "import gc, json, ramledger, weakref\n"
        "import tensorflow as tf\n"
        "ledger = ramledger.record()\n"
        "@tf.function\n"
        "def once(x): return x + 1\n"
        "tensor = once(tf.ones(1000))\n"
        "for _ in range(3): facts = ledger.snapshot().facts['tensorflow']\n"
        "gone = weakref.ref(tensor)\n"
        "del tensor\n"
        "gc.collect()\n"
        "count = once.experimental_get_tracing_count()\n"
        "print(json.dumps({'traces': count, 'gone': gone() is None, 'graphs': facts['graphs']}))\n"
    )
    assert run(code, tmp_path) == {"traces": 1, "gone": True, "graphs": 1}


def run(code: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
