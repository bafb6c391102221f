"""MemoryCallback with the real Keras on TensorFlow: logs, verdict, limit; alone and under `run`.

`make test-tensorflow` runs these; elsewhere they say why not.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

RAMLEDGER = Path(sys.executable).with_name("ramledger")
needs_keras = pytest.mark.skipif(
    find_spec("keras") is None, reason="keras is not installed: make test-tensorflow"
)
TRAIN = """
import json, pickle, sys
import numpy as np
from ramledger.integrations.keras import MemoryCallback
import keras
layers = keras.layers
model = keras.Sequential([layers.Input((16,)), layers.Dense(64, "relu"), layers.Dense(2)])
model.compile("adam", "mse")
x, y = np.zeros((320, 16), np.float32), np.zeros((320, 2), np.float32)
kept = []
class Log(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if LEAKS:
            kept.append(np.ones(250_000))
callback = MemoryCallback(every_seconds=1.0, OPTIONS)
history = {}
for _ in range(FITS):
    done = model.fit(x, y, epochs=EPOCHS, verbose=0, callbacks=[callback, Log(), *OTHERS])
    history = done.history
found = callback.diagnosis
leaks = found.leaks if found else ()
again = pickle.loads(pickle.dumps(callback))
print(json.dumps({
    "verdict": str(found.verdict) if found else None, "epochs": callback.epochs,
    "paths": [leak.culprit.path for leak in leaks], "stopped": callback.stopped_at_bytes,
    "last": {name: rows[-1] for name, rows in history.items()}, "copy": again.epochs,
}))
"""


def train(
    tmp_path: Path,
    *,
    leaks: bool = False,
    options: str = "",
    epochs: int = 8,
    fits: int = 1,
    others: str = "[]",
    under: tuple[str, ...] = (),
) -> tuple[dict[str, Any], str]:
    code = TRAIN.replace("LEAKS", str(leaks)).replace("OPTIONS", options).replace("OTHERS", others)
    code = code.replace("EPOCHS", str(epochs)).replace("FITS", str(fits))
    (tmp_path / "train.py").write_text(code)
    command = [*under, sys.executable, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout


@needs_keras
def test_the_logs_get_a_whole_statement_and_a_leak_its_name(tmp_path: Path) -> None:
    found, out = train(tmp_path, leaks=True, epochs=40)
    assert found["verdict"] == "leak", out
    assert found["paths"] == ["train.py:kept"]
    assert out.count("ramledger: leak: ") == 1
    memory = {k: v for k, v in found["last"].items() if k.startswith("memory/")}
    rss = memory.pop("memory/rss")
    assert sum(memory.values()) == pytest.approx(rss, abs=0.2)
    assert memory["memory/tensorflow"] > 0.1  # the graphs of fit
    assert found["copy"] == found["epochs"] == 40


@needs_keras
def test_many_calls_of_fit_count_on_and_a_healthy_run_stays_quiet(tmp_path: Path) -> None:
    found, out = train(tmp_path, epochs=4, fits=10)
    assert found["epochs"] == 40
    assert found["verdict"] == "healthy", out
    assert "ramledger: leak" not in out


@needs_keras
def test_only_the_groups_that_were_asked_for_are_logged(tmp_path: Path) -> None:
    found, _ = train(tmp_path, epochs=2, options="groups=('rss', 'native')")
    assert {k for k in found["last"] if k.startswith("memory/")} == {"memory/rss", "memory/native"}


@needs_keras
def test_the_limit_saves_and_stops(tmp_path: Path) -> None:
    options = "max_rss='100 MiB', save_path='last.keras'"
    found, _ = train(tmp_path, options=options)
    assert found["stopped"] > 100 << 20
    assert found["epochs"] == 1
    assert (tmp_path / "last.keras").stat().st_size > 1_000


@needs_keras
def test_every_call_of_fit_stops_at_the_limit_even_where_nothing_can_be_saved(
    tmp_path: Path,
) -> None:
    options = "max_rss='100 MiB', save_path='/proc/x/last.keras'"
    found, _ = train(tmp_path, options=options, fits=3)
    assert found["epochs"] == 3


@needs_keras
def test_a_second_callback_rests_and_csv_gets_the_numbers(tmp_path: Path) -> None:
    others = "[MemoryCallback(), keras.callbacks.CSVLogger('log.csv')]"
    found, out = train(tmp_path, others=others)
    assert found["epochs"] == 8
    assert out.count("ramledger: ") <= 1
    assert "memory/rss" in (tmp_path / "log.csv").read_text().splitlines()[0]


@needs_keras
def test_under_run_it_joins_that_recording(tmp_path: Path) -> None:
    under = (str(RAMLEDGER), "run", "--quiet", "--out", "run.ledger.jsonl", "--")
    found, _ = train(tmp_path, under=under)
    assert found["verdict"] is None  # that of `run` comes at its end
    assert found["last"]["memory/rss"] > 100
    assert len(list(tmp_path.glob("*.ledger.jsonl"))) == 1


@needs_keras
def test_a_recording_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    code = (
        "from ramledger.integrations.keras import MemoryCallback\n"
        "MemoryCallback(recording='/proc/x.ledger.jsonl').on_train_begin()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "RecordingError: cannot write /proc/x.ledger.jsonl" in done.stderr


def failure(tmp_path: Path, version: str) -> str:
    (tmp_path / "keras").mkdir()
    (tmp_path / "keras" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    (tmp_path / "keras" / "callbacks.py").write_text("class Callback: pass\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport ramledger.integrations.keras"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1]


def test_a_keras_that_is_too_old_is_named(tmp_path: Path) -> None:
    assert "ConfigError: keras 2.15.0 is too old: 3.0 is needed" in failure(tmp_path, "2.15.0")


@pytest.mark.skipif(find_spec("keras") is not None, reason="keras is installed")
def test_without_keras_one_line_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import ramledger.integrations.keras"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert "ConfigError: keras is not installed" in done.stderr
