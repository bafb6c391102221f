"""`ramledger train`: the reference workload, and what can be done with its checkpoints."""

import json as json_format
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TextIO

from cyclopts import App, Parameter

import ramledger
from ramledger.errors import CheckpointError, ConfigError
from ramledger.ledger import printable
from ramledger.units import parse_bytes

if TYPE_CHECKING:
    from ramledger.plan.budget import Budget
    from ramledger.train.progress import ProgressPrinter
    from ramledger.train.ray_engine import RayEngine
    from ramledger.train.tasks import Task
    from ramledger.train.trainer import Trainer
    from ramledger.trainer_config import TrainerConfig

EXIT_BAD = 3
SIGNALS = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "SIGINT"}

EXAMPLES = """\
Examples:
  ramledger train --generations 25 --population 16 --budget 2GiB
  ramledger train --env Pendulum-v1 --out pendulum
  ramledger train --out pendulum --resume --generations 50
  ramledger train evaluate pendulum
  ramledger train --engine ray --workers 4 --address ray://head:10001
"""

Flag = Annotated[bool, Parameter(negative="", show_default=False)]

app = App(
    name="train",
    help="Train a population of agents, bounded in memory, and resume it where it stopped.",
    help_epilogue=EXAMPLES,
    help_format="plaintext",
)


@app.default
def train(
    config: str | None = None,
    /,
    *,
    env: str | None = None,
    data: str | None = None,
    generations: int | None = None,
    population: int | None = None,
    updates: int | None = None,
    seed: int | None = None,
    out: str = "train",
    budget: str | None = None,
    plan: Flag = False,
    resume: Flag = False,
    upload: str = "",
    force: Flag = False,
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    address: str = "",
    quiet: Flag = False,
    json: Flag = False,
) -> int:
    """Evaluate, train, evolve; a checkpoint every generation. Exit code 3: the budget is too small.

    Parameters
    ----------
    config
        A TOML file; options below take precedence over it.
    env
        `trading`, or the id of a Gymnasium environment with a Box of actions.
    data
        A CSV or Parquet file for the trading environment.
    generations
        Passes of evaluate, train and evolve.
    population
        Agents.
    updates
        Gradient steps of every learner in a generation.
    seed
        The same seed gives the same run.
    out
        The folder for checkpoints and the recording.
    budget
        RAM that the process may take, such as 2GiB.
    plan
        Print what the run will hold, as `ramledger plan` does, before it starts.
    resume
        Continue the run in that folder; if it is empty and --upload is given, the uploaded run.
    upload
        Send every checkpoint to s3://…, gs://…, az://… or a folder, in the background.
    force
        Upload even if another run has uploaded to that place; its checkpoints stay.
    engine
        Compute in this process, or in parts on Ray actors.
    workers
        Shards of the population, one Ray actor each: the key `shards`.
    address
        Address of a Ray cluster, such as ray://head:10001; by default Ray is started here.
    quiet
        Print nothing.
    json
        Print one JSON document at the end.
    """
    folder = Path(out)
    limit = parse_bytes(budget) if budget is not None else 0
    given = {"env": env, "data": data, "generations": generations, "population": population,
             "updates": updates, "seed": seed, "shards": workers}  # fmt: skip
    options = {name: value for name, value in given.items() if value is not None}
    if resume and config is not None:
        raise ConfigError(
            "--resume cannot be combined with a config file",
            hint="leave the file out: the run has its own config",
        )
    if engine == "ray" and not resume and workers is None and config is None:
        options["shards"] = min(os.cpu_count() or 1, population or 16)
    _require_extras(engine, upload)
    if address and engine != "ray":
        raise ConfigError(
            "--address needs --engine ray", hint="add --engine ray, or remove --address"
        )
    if force and not upload:
        raise ConfigError(
            "--force needs --upload", hint="it uploads to a place that another run has uploaded to"
        )
    with _Beginning(folder, resume) as recording:
        ledger = ramledger.record(recording.path)
        printer = _loaded(lambda: _printer(quiet, limit, json))
        common = {"ledger": ledger, "listener": printer, "upload": upload, "overwrite": force}
        trainer = _loaded(lambda: _trainer(config, folder, options, resume, common, plan))
        recording.is_wanted = trainer is not None
    if trainer is None:
        return EXIT_BAD
    if engine == "ray":
        trainer.engine = _ray_engine(trainer, address)
    reason = _run(trainer)
    printer.summary(trainer, reason)
    _write_page(recording.path, printer)
    if json:
        document = {"schema": "ramledger.train/1", "ended": reason, "folder": str(folder),
                    "generations": trainer.generation,
                    # none, where it was stopped before the first validation
                    "best_score": trainer.best_score if trainer.history else None,
                    "peak_bytes": printer.peak_bytes,
                    "longest_pause_seconds": round(trainer.longest_pause_seconds, 3),
                    "history": trainer.history}  # fmt: skip
        print(json_format.dumps(document, indent=2))
    if trainer.uploader is not None and trainer.uploader.error is not None:
        raise trainer.uploader.error
    return _exit_code(reason)


@app.command
def evaluate(
    checkpoint: str,
    /,
    *,
    env: str | None = None,
    data: str | None = None,
    span: str = "test",
    episodes: int = 20,
    json: Flag = False,
) -> int:
    """Compare the best agent of a run with random actions and, on a market, buy and hold.

    Parameters
    ----------
    checkpoint
        The folder of a run.
    env
        Another environment of the same shape, instead of the one it was trained on.
    data
        Another market of the same assets and features.
    span
        Rows of the market: train, validation or test.
    episodes
        How many episodes; the same ones for all.
    json
        Print one JSON document.
    """
    if span not in ("train", "validation", "test"):
        raise ConfigError(
            f"--span must be train, validation or test, got {span}", hint="--span test"
        )
    from dataclasses import asdict

    trainer = _resumed(Path(checkpoint), {})
    from ramledger.train.evaluation import compare, other_task
    from ramledger.train.progress import score_lines

    task = trainer.task if env is data is None else other_task(trainer, env, data)
    scores = compare(task, trainer.population, span=span, episodes=episodes)
    if json:
        print(json_format.dumps({"scores": [asdict(score) for score in scores]}, indent=2))
    else:
        print("\n".join(map(printable, score_lines(scores))))
    return 0


@app.command
def export(checkpoint: str, to: str, /, *, force: Flag = False) -> int:
    """Write the best agent's actor to one file, which numpy or torch alone can read.

    Parameters
    ----------
    checkpoint
        The folder of a run.
    to
        The file to write: .npz, or .pt for a state dict of torch.
    force
        Overwrite it.
    """
    trainer = _resumed(Path(checkpoint), {})
    from ramledger.train.export import export_best

    print(printable(str(export_best(trainer.population, to, force=force))))
    return 0


class _Beginning:
    """The recording of a run that is about to begin; removed if the run does not begin."""

    def __init__(self, folder: Path, resume: bool) -> None:
        self._made = [path for path in (folder, *folder.parents) if not path.exists()]
        self.path = _recording(folder, resume)
        self.is_wanted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.is_wanted:
            with suppress(OSError):
                os.unlink(self.path)
            with suppress(OSError):  # a folder with other files in it stays
                for folder in self._made:
                    folder.rmdir()


def _require_extras(engine: str, upload: str) -> None:
    """Raise if a library that the run needs is missing, before any file is made."""
    needed = {"torch": "train", "ray": "ray" if engine == "ray" else ""}
    needed["obstore"] = "upload" if "://" in upload else ""
    for name, extra in needed.items():
        if extra and find_spec(name) is None:
            raise ConfigError(f"{name} is not installed", hint=f"pip install 'ramledger[{extra}]'")


def _recording(folder: Path, resume: bool) -> str:
    """The path of the run's own recording."""
    taken = list(folder.glob("state-*.tensors"))
    if taken and not resume:
        raise CheckpointError(
            f"{folder} holds a run already",
            hint="continue it with --resume, or choose another --out",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is not a folder" if isinstance(error, FileExistsError) else error.strerror
        raise ConfigError(
            f"cannot write into {folder}: {reason}", hint="choose another place with --out"
        ) from None
    number = len(list(folder.glob("*.ledger.jsonl")))
    name = f"train-{number + 1}.ledger.jsonl" if number else "train.ledger.jsonl"
    return str(folder / name)


def _write_page(recording: str, printer: "ProgressPrinter") -> None:
    """Write the page of `ramledger report` beside the recording; not under `ramledger run`."""
    if not os.path.exists(recording):
        return
    from ramledger.report.html.page_file import report

    printer.say(f"  report      {report(recording)}")


def _loaded(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"training needs {error.name}", hint="pip install 'ramledger[train]'"
        ) from None


def _printer(quiet: bool, limit: int, json: bool) -> "ProgressPrinter":
    from ramledger.train.progress import progress_printer

    return progress_printer(quiet, limit, stderr=json)


class _DoesNotFitError(Exception):
    """The plan of a run is larger than its budget."""


def _trainer(
    config: str | None, folder: Path, options: dict[str, Any], resume: bool,
    common: dict[str, Any], plan: bool,
) -> "Trainer | None":  # fmt: skip
    """The run, or None if its plan does not fit; then nothing of it is allocated."""
    from ramledger.train.checkpoint import numbers_in
    from ramledger.train.planned_needs import plan_run
    from ramledger.train.remote_checkpoints import fetch
    from ramledger.train.tasks import make_task
    from ramledger.train.trainer import Trainer
    from ramledger.trainer_config import read_config

    printer, upload = common["listener"], common["upload"]
    imported = common["ledger"].snapshot(objects=False).rss_bytes

    def check(settings: "TrainerConfig", task: "Task") -> None:
        budget = plan_run(
            settings, task, imported_bytes=imported, limit_bytes=printer.budget_bytes
        )  # fmt: skip
        if plan or not budget.fits:
            _print_plan(budget, printer.out if budget.fits else sys.stderr)
        if not budget.fits:
            raise _DoesNotFitError

    try:
        if resume:
            if upload and not numbers_in(folder):
                fetch(upload, folder)
            trainer = Trainer.resume(folder, options=options, check=check, **common)
            for text in trainer.lost:
                printer.say(f"damaged: {text}")
            return trainer
        settings = read_config(config, options)
        task = make_task(settings)
        check(settings, task)
    except _DoesNotFitError:
        return None
    return Trainer(settings, folder, task=task, **common)


def _ray_engine(trainer: "Trainer", address: str) -> "RayEngine":
    from ramledger.train.ray_engine import RayEngine

    return RayEngine(trainer.config, address=address)


def _resumed(folder: Path, options: dict[str, Any]) -> "Trainer":
    def make() -> "Trainer":
        from ramledger.train.trainer import Trainer

        return Trainer.resume(folder, ledger=ramledger.record(), options=options)

    found: Trainer = _loaded(make)
    return found


def _print_plan(budget: "Budget", out: TextIO | None) -> None:
    if out is None:
        return
    from rich.console import Console

    from ramledger.report.terminal.plan_text import print_budget

    print_budget(budget, Console(file=out, highlight=False))


def _run(trainer: "Trainer") -> str:
    """Run to the end; a signal or memory pressure saves and stops, a second signal ends it."""

    def stop(number: int, _: object) -> None:
        which = signal.Signals(number)
        trainer.stop(SIGNALS[which])
        signal.signal(which, before[which])

    # one that is ignored stays so: `nohup`, and a shell without job control for its `&`
    heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}
    trainer.ledger.on_pressure(lambda: trainer.stop("memory pressure"))
    try:
        return trainer.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_code(reason: str) -> int:
    if reason in ("budget", "memory pressure"):
        return EXIT_BAD
    numbers = {name: 128 + number for number, name in SIGNALS.items()}
    return numbers.get(reason, 0)
