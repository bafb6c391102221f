"""What goes to the GPU: arithmetic on sizes measured on CPUs, since no GPU was available."""

from collections.abc import Iterator

from ramledger.plan.budget import Row, Span, When, Where
from ramledger.plan.formulas.buffers import FLOAT, Storage
from ramledger.plan.formulas.update_memory import update_of
from ramledger.plan.job import Job
from ramledger.units import MIB

# reported for single cards: 256 MiB (RTX 3090, torch 2.7), 426 MiB (RTX 6000 Ada, torch 2.10)
_CONTEXT = Span(256 * MIB, 400 * MIB, 700 * MIB)
_HOST_CONTEXT = Span(200 * MIB, 600 * MIB, 2000 * MIB)
_WORKSPACE = Span(8 * MIB, 32 * MIB, 128 * MIB)


def vram_rows(job: Job, storage: Storage) -> Iterator[Row]:
    """Rows in VRAM, and the CUDA context's cost in RAM."""
    if job.config.device != "cuda":
        return
    yield Row("cuda/context", _CONTEXT, "reported, not measured here", When.START, Where.VRAM)
    yield Row("cuda/host context", _HOST_CONTEXT, "reported, not measured here", When.START)
    trained = job.config.trained_parameters or job.modules.trained
    total = job.config.trained_parameters or job.modules.total
    weights = total * FLOAT
    yield Row("networks", Span.exact(weights), f"{total:,} parameters × 4 B", When.START,
              Where.VRAM)  # fmt: skip
    copies = job.optimizer_copies
    yield Row("optimizer", Span.exact(copies * trained * FLOAT), f"{copies} × {trained:,} × 4 B",
              When.UPDATE, Where.VRAM)  # fmt: skip
    update = update_of(job)
    yield Row("update/tensors", Span.around(update.live_bytes, 0.95, 1.25), update.live_formula,
              When.UPDATE, Where.VRAM, transient=True)  # fmt: skip
    workspace = Span(
        _WORKSPACE.low,
        _WORKSPACE.expected + update.scratch_bytes // 2,
        _WORKSPACE.high + 2 * update.scratch_bytes,
    )
    yield Row("cuda/workspace", workspace, "cuBLAS and cuDNN; not measured here", When.UPDATE,
              Where.VRAM, transient=True)  # fmt: skip
    if storage.on_gpu:
        for array in storage.arrays:
            span = Span.exact(array.total_bytes)
            yield Row(array.account, span, array.formula, When.START, Where.VRAM)
