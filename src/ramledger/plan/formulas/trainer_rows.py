"""Rows of our own trainer: a population as stacked tensors, its data, and one batch.

`ramledger.train` asks for these very rows. Measured as those of processes.py: accuracy-plan.md.
"""

from collections.abc import Iterator

from ramledger.plan.budget import Row, Span, When, Where
from ramledger.plan.complete_config import Job
from ramledger.plan.formulas.update_memory import FLOAT, learners_of


def population_rows(job: Job) -> Iterator[Row]:
    """Networks, moments, data and batches; what every process has is not in it."""
    rows = job.config.population + 1
    for name, parameters in job.modules.by_name.items():
        formula = f"{parameters:,} parameters × 4 B × ({rows - 1} agents and the best one)"
        yield Row(f"networks/{name}", Span.exact(parameters * FLOAT * rows), formula, When.START)
    trained = job.modules.trained
    formula = f"2 × {trained:,} trained parameters × 4 B × {rows} (adam)"
    yield Row("optimizer", Span.exact(2 * trained * FLOAT * rows), formula, When.START)
    yield from _data_rows(job)
    yield from _batch_rows(job)
    weights = (job.modules.total + 2 * trained) * FLOAT * rows
    formula = "networks and moments; the buffer's part is what is new in it"
    yield Row("checkpoint/state", Span.exact(weights), formula, When.CHECKPOINT, Where.DISK)


def _data_rows(job: Job) -> Iterator[Row]:
    trainer = job.config.trainer
    if trainer.table_rows:
        # the assets' returns lie beside the table
        width = trainer.columns + job.action.outputs
        formula = f"{trainer.table_rows:,} rows × {width:,} × 4 B, prices and features"
        size = trainer.table_rows * width * FLOAT
        yield Row("data", Span.around(size, 1, 2), formula, When.START)


def _batch_rows(job: Job) -> Iterator[Row]:
    trainer = job.config.trainer
    batches = 1 if trainer.shared_batch else learners_of(job)
    rows = batches * job.batch_size
    pair = sum(2 * box.elements * FLOAT for box in job.observation.values())
    if trainer.is_windowed:
        both = trainer.window + 1 if trainer.n_step == 1 else 2 * trainer.window
        pair += both * trainer.columns * FLOAT
    formula = f"{rows:,} observations with the next ones × {pair:,} B, filled again and again"
    yield Row("batch", Span.exact(rows * pair), formula, When.UPDATE)
    features = job.modules.extractor.features
    formula = f"2 × 2 × {rows:,} × {features:,} × 4 B: encoded, and as tensors"
    size = 4 * rows * features * FLOAT
    yield Row("update/features", Span.exact(size), formula, When.UPDATE, transient=True)
