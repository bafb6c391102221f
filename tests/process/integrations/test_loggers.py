"""MemoryLogger with the real W&B (offline), MLflow (file store) and TensorBoard.

`make test-loggers` runs these; elsewhere they say why not.
"""

import json
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import ramledger
from ramledger.errors import ConfigError
from ramledger.integrations.chart_scalars import ScalarSource, scalars
from ramledger.integrations.loggers import MemoryLogger
from ramledger.process_session import ProcessSession


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        find_spec(package) is None, reason=f"{package} is not installed: make test-loggers"
    )


def run(code: str, folder: Path) -> Any:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


LOG = """
import json
from ramledger.integrations.loggers import MemoryLogger
memory = MemoryLogger(*WRITERS, every_seconds=0.0)
memory._source.next_at = 0.0
kept, reached = [], []
for step in range(3):
    kept.append(bytearray(b"x" * (8 << 20)))
    memory._source.next_at = 0.0
    reached = memory.log(step)
"""


@needs("wandb")
def test_a_run_of_wandb_gets_them(tmp_path: Path) -> None:
    code = (
        "import wandb\n"
        "run = wandb.init(mode='offline', project='test', settings=wandb.Settings(silent=True))\n"
        + LOG.replace("WRITERS", "()")
        + "summary = {k: run.summary[k] for k in ('memory/rss', 'memory/step')}\n"
        "run.finish()\n"
        "print(json.dumps([reached, summary]))\n"
    )
    reached, summary = run(code, tmp_path)
    assert reached == ["wandb"]
    assert summary["memory/rss"] > 24
    assert summary["memory/step"] == 2
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


@needs("mlflow")
def test_a_run_of_mlflow_gets_them(tmp_path: Path) -> None:
    code = (
        "import mlflow\n"
        "mlflow.set_tracking_uri('sqlite:///runs.db')\n"
        "with mlflow.start_run() as run:\n"
        + "\n".join("    " + line for line in LOG.replace("WRITERS", "()").splitlines())
        + "\nrows = mlflow.MlflowClient().get_metric_history(run.info.run_id, 'memory/rss')\n"
        "print(json.dumps([reached, [[row.step, row.value] for row in rows]]))\n"
    )
    reached, rows = run(code, tmp_path)
    assert reached == ["mlflow"]
    assert [step for step, _ in rows] == [0, 1, 2]
    assert rows[2][1] - rows[0][1] >= 16  # MLflow takes some itself


@needs("tensorboardX")
def test_a_writer_of_tensorboard_gets_them(tmp_path: Path) -> None:
    code = (
        "import tensorboardX\n"
        "writer = tensorboardX.SummaryWriter('events')\n"
        + LOG.replace("WRITERS", "[writer]")
        + "writer.close()\n"
        "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
        "events = EventAccumulator('events').Reload()\n"
        "print(json.dumps([reached, [e.step for e in events.Scalars('memory/rss')]]))\n"
    )
    assert run(code, tmp_path) == [["tensorboard"], [0, 1, 2]]


def test_none_of_them_is_imported(tmp_path: Path) -> None:
    code = LOG.replace("WRITERS", "()") + (
        "import sys\n"
        "loaded = [name for name in ('wandb', 'mlflow', 'tensorboard') if name in sys.modules]\n"
        "print(json.dumps([reached, loaded]))\n"
    )
    assert run(code, tmp_path) == [[], []]


def test_the_groups_sum_to_rss() -> None:
    found = scalars(ramledger.record().snapshot(objects=False))
    rss = found.pop("rss")
    assert sum(found.values()) == rss


def test_a_statement_serves_until_the_next_one_is_due() -> None:
    source = ScalarSource(every_seconds=3600)
    assert source.read() is source.read()


@pytest.fixture
def without_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another test may have begun a recording in this process."""
    monkeypatch.setattr(ProcessSession, "is_recorded", False)


@pytest.mark.usefixtures("without_recording")
def test_a_census_waits_until_it_is_a_small_share_of_the_training() -> None:
    owned = bytearray(8 << 20)
    source = ScalarSource(every_seconds=0.0)
    assert source.read(buffer=[owned])["memory/variables"] >= 8
    assert source._full_statements.spent_seconds == 0
    source._full_statements.allows = lambda *given, **named: True  # type: ignore[method-assign]
    source.next_at = 0.0
    assert source.read()["memory/rss"] > 8
    assert source._full_statements.spent_seconds > 0


@pytest.mark.usefixtures("without_recording")
def test_after_a_census_nothing_less_is_shown() -> None:
    source = ScalarSource(every_seconds=0.0)
    source._owners = {"replay": 1 << 20}  # which no name leads to
    source._latest = {"memory/rss": 1.0}
    assert source.read() == {"memory/rss": 1.0}
    seeing = ScalarSource(every_seconds=0.0)
    seeing._owners = {"replay": 1 << 10}
    assert seeing.read()["memory/rss"] > 8


def test_clocks_do_not_travel() -> None:
    source = ScalarSource(every_seconds=7.0)
    source.next_at = float("inf")
    other = pickle.loads(pickle.dumps(source))
    assert (other.every_seconds, other.next_at) == (7.0, 0.0)


def test_looks_of_a_recording_serve_the_charts(tmp_path: Path) -> None:
    code = """
import json
import ramledger
from ramledger.agent import observer
from ramledger.integrations.chart_scalars import ScalarSource
ramledger.record("run.ledger.jsonl")
observer.OBSERVER.snapshots.take(generation=0, phase="")
source = ScalarSource(every_seconds=0.0)
observer.OBSERVER.snapshots.governor.allows = lambda *given, **named: False
first = source.read()
print(json.dumps([source.read() is first, first["memory/rss"]]))
"""
    is_same, rss = run(code, tmp_path)
    assert is_same and rss > 5


def test_a_look_that_was_taken_anyway_does_not_wait_for_the_rest(tmp_path: Path) -> None:
    code = """
import json
import ramledger
from ramledger.agent import observer
from ramledger.integrations.chart_scalars import ScalarSource
ramledger.record("run.ledger.jsonl", budget=0.0)
often, rarely = ScalarSource(every_seconds=0.0), ScalarSource(every_seconds=3600.0)
before = [often.read()["memory/rss"], rarely.read()["memory/rss"]]
often.next_at = float("inf")
kept = bytearray(b"x" * (40 << 20))
observer.OBSERVER.snapshots.take(generation=0, phase="")
after = [often.read()["memory/rss"], rarely.read()["memory/rss"]]
print(json.dumps([b - a for a, b in zip(before, after)]))
"""
    often, rarely = run(code, tmp_path)
    assert often > 35
    assert rarely == 0


def test_what_is_no_writer_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no add_scalar"):
        MemoryLogger(print)
