"""`ramledger train` as a user runs it: killed, stopped, resumed, held to a budget."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ramledger
from ramledger.attach.enter import ask_inside
from ramledger.cli.main import main
from ramledger.errors import ConfigError
from ramledger.events import ExpectationEvent, PhaseEvent
from ramledger.recording import Recording
from ramledger.train.checkpoint import numbers_in
from ramledger.train.export import load_policy
from ramledger.train.progress import ProgressPrinter
from ramledger.train.tasks import make_task
from ramledger.train.trainer import Trainer
from ramledger.trainer_config import checked, read_config
from tests.support.places import ROOT
from tests.support.small_trainings import (
    COMMAND,
    SMALL,
    SMALL_TOML,
    new_trainer,
    resumed,
    same,
    train,
)

pytestmark = pytest.mark.xdist_group("train-command")

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """Six generations without an interruption, in this process."""
    trainer = new_trainer(tmp_path_factory.mktemp("whole") / "run")
    trainer.run()
    return trainer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(SMALL_TOML)
    return tmp_path


def started(folder: Path, generations: int) -> subprocess.Popen[str]:
    command = [str(COMMAND), "train", "small.toml", "--out", "run"]
    return subprocess.Popen(
        [*command, "--generations", str(generations)],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def wait_for_generation(folder: Path, number: int, process: subprocess.Popen[str]) -> None:
    """Until that generation's save is durable."""
    deadline = time.monotonic() + 100
    while not (folder / "run" / "replay" / f"save-{number:08d}.json").exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.005)


def test_killed_and_resumed_it_is_the_run_that_was_never_interrupted(
    whole: Trainer, folder: Path
) -> None:
    with started(folder, 1000) as process:
        wait_for_generation(folder, 3, process)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    reached = resumed(folder / "run", generations=1000).generation
    assert reached >= 3
    done = train("--out", "run", "--resume", "--generations", str(reached + 3), cwd=folder)
    assert done.returncode == 0, done.stderr
    found = resumed(folder / "run")
    # the kill may have come later than intended: then the whole run is made as long
    if found.generation == whole.generation:
        same(whole, found)
    else:
        longer = new_trainer(folder / "longer", generations=found.generation)
        longer.run()
        same(longer, found)


@pytest.mark.parametrize("ending", ["SIGTERM", "SIGINT", "memory pressure"])
def test_what_ends_it_early_ends_it_with_a_checkpoint(folder: Path, ending: str) -> None:
    with started(folder, 1000) as process:
        wait_for_generation(folder, 1, process)
        if ending == "memory pressure":  # as `ramledger run --on-limit checkpoint` tells it
            ask_inside(process.pid, {"verb": "pressure"}, method="agent", timeout_seconds=60)
            code = 3
        else:
            process.send_signal(signal.Signals[ending])
            code = 128 + signal.Signals[ending]
        out, error = process.communicate(timeout=100)
    assert process.returncode == code, error
    assert f"{ending} after" in out
    found = resumed(folder / "run", generations=1000)
    whole = new_trainer(folder / "whole", generations=max(found.generation, 1))
    whole.run()
    assert found.history == whole.history[: len(found.history)]


def test_stopped_before_any_validation_there_is_no_best_agent(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Trainer, "run", lambda trainer: trainer.save() or "SIGINT")
    assert main(["train", "small.toml", "--out", "none", "--json"]) == 128 + signal.SIGINT
    said = capsys.readouterr()
    assert json.loads(said.out, parse_constant=pytest.fail)["best_score"] is None
    assert "none yet" in said.err


def test_what_is_printed_and_recorded(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = train("small.toml", "--out", "run", "--generations", "2", "--plan", cwd=folder)
    assert done.returncode == 0, done.stderr
    for said in ("imports/torch and framework", "generation 2 of 2", "evaluate", "evolve", "RSS",
                 "unexplained", "validation", "finished after 2 generations"):  # fmt: skip
        assert said in done.stdout, said
    assert "ramledger</title>" in (folder / "run" / "train.html").read_text()
    (scalars,) = (folder / "run" / "tensorboard").iterdir()
    for tag in (b"return/best", b"validation/best", b"memory/rss_bytes", b"seconds/train"):
        assert scalars.read_bytes().count(tag) == 2, tag
    recording = Recording.read(str(folder / "run" / "train.ledger.jsonl"))
    phases = {event.name for event in recording.of_type(PhaseEvent)}
    assert {"evaluate", "train", "evolve"} <= phases
    # a census that began before the expectation was stated counts none; more would be a leak
    found = [event.found for event in recording.of_type(ExpectationEvent)]
    assert max(found, default=0) <= 2
    monkeypatch.chdir(folder)
    assert main(["train", "small.toml", "--out", "run"]) == 1
    assert "--resume" in capsys.readouterr().err
    assert len(numbers_in(folder / "run")) == 2
    assert main(["train", "evaluate", "run", "--episodes", "3", "--json"]) == 0
    scores = {score["name"] for score in json.loads(capsys.readouterr().out)["scores"]}
    assert scores == {"best agent", "random", "buy and hold"}
    assert main(["train", "export", "run", "best.npz"]) == 0
    assert main(["train", "export", "run", "best.npz"]) == 1
    assert main(["train", "export", "run", "best.pt"]) == 0
    assert main(["train", "export", "run", "best.txt"]) == 1
    trainer = resumed(folder / "run")
    features = np.random.default_rng(0).standard_normal((5, trainer.task.features), np.float32)
    best = trainer.population.best
    theirs = trainer.population.act(torch.from_numpy(features)[None], best, best + 1)[0]
    ours = load_policy(folder / "best.npz").act(features)
    assert np.allclose(ours, theirs.numpy(), atol=1e-5)
    np.save("features.npy", features)
    for code in documented_acts():
        found = acted_without_ramledger(code)
        assert np.allclose(found, theirs.numpy(), atol=1e-5), code
    assert (folder / "best.pt").stat().st_size < 10_000  # one agent, not all of them


def documented_acts() -> list[str]:
    page = (ROOT / "docs" / "train.md").read_text()
    section = page.partition("## The best agent by itself")[2].partition("\n## ")[0]
    found = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)
    assert len(found) == 2
    return found


def acted_without_ramledger(code: str) -> Any:
    """In a process that could not import it."""
    before = "import sys; sys.modules['ramledger'] = None\n"
    after = "\nnp = __import__('numpy'); np.save('actions', act(np.load('features.npy')))\n"
    subprocess.run([sys.executable, "-c", before + code + after], check=True)
    return np.load("actions.npy")


def test_it_ends_with_a_checkpoint_before_its_budget_is_used_up(folder: Path) -> None:
    """A run that takes more than its plan said: the plan would have refused it."""
    ledger = ramledger.record()
    used = ledger.snapshot(objects=False).rss_bytes
    run = Trainer(checked(SMALL), folder / "run", ledger=ledger, listener=ProgressPrinter(used))
    assert run.run() == "budget"
    assert numbers_in(folder / "run")
    whole = new_trainer(folder / "whole")
    whole.run()
    later = resumed(folder / "run")
    assert later.generation < whole.generation
    later.run()
    same(whole, later)


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    done = train("small.toml", "--out", "run", "--budget", "100MiB", cwd=folder)
    assert done.returncode == 3
    assert done.stderr.startswith("does not fit")
    assert "of 100.0 MiB" in done.stderr
    assert not numbers_in(folder / "run")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("populaton = 4", "populaton"),
        ("population = 0", "population must be from 1 to 100,000, got 0"),
        ("learners = 20", "learners must be at most population (16), got 20"),
        ("population =", "not TOML"),
        ('[exploration]\nnoise = "loud"', "loud"),
        ('[evolution]\nmethod = "x"', "scaled, proximal"),
        ('env = "Pendulum-v1"\ndata = "a.csv"', "data is for the trading environment"),
        ('data = "a.csv"', "cannot read a.csv: No such file"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "wrong.toml").write_text(text + "\n")
    with pytest.raises(ConfigError) as caught:
        make_task(read_config(str(tmp_path / "wrong.toml"), {}))
    assert said in f"{caught.value}; {caught.value.hint}"


@pytest.mark.parametrize(
    ("missing", "words", "extra"),
    [("torch", [], "train"), ("ray", ["--engine", "ray"], "ray"),
     ("obstore", ["--upload", "s3://bucket/run"], "upload"), ("torch", ["--resume"], "train")],
)  # fmt: skip
def test_without_an_extra_nothing_is_left_behind(
    tmp_path: Path, missing: str, words: list[str], extra: str
) -> None:
    # what an interpreter without it does: it is not found
    code = f"import sys; sys.modules[{missing!r}] = None\n"
    code += "from ramledger.cli.main import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "train", "--out", "a/b", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    line, hint = done.stderr.splitlines()
    assert f"{missing} is not installed" in line
    assert f"ramledger[{extra}]" in hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["--budget", "1MiB"], ["--resume"], ["--env", "No-v0"]])
def test_a_run_that_does_not_begin_leaves_nothing_behind(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ramledger", "train", "--out", "a/b", "--quiet", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode in (1, 3)
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[object] = []

    def look(trainer: Trainer) -> str:
        heard.extend(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))
        return "done"

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Trainer, "run", look)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        main(["train", "--out", "run", "--quiet"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard[0] == signal.SIG_IGN
    assert callable(heard[1])
