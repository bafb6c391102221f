"""From a complete job to its budget: rows, phases, the peak and where it falls."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from ramledger.plan.baseline import Baseline, kept_baseline, shipped_baseline
from ramledger.plan.budget import (
    NOTHING,
    Budget,
    Room,
    Row,
    Span,
    Training,
    When,
    Where,
)
from ramledger.plan.complete_config import complete
from ramledger.plan.formulas.buffers import FLOAT, Storage
from ramledger.plan.formulas.library_pages import MOST_AHEAD_BYTES, TRAINING_FACTOR, ahead_bytes
from ramledger.plan.formulas.process_costs import (
    MB,
    Workers,
    extra_imports,
    stack_bytes,
    thread_count,
    workers_of,
)
from ramledger.plan.formulas.update_memory import Update, update_of
from ramledger.plan.formulas.vram import vram_rows
from ramledger.plan.frameworks.all_frameworks import FRAMEWORKS
from ramledger.plan.job import Job
from ramledger.plan.plan_config import Config
from ramledger.plan.target_machine import Hardware, hardware
from ramledger.units import format_bytes

_SAVE_BYTES = 300_000


@dataclass(frozen=True, slots=True)
class Setting:
    """What does not come from the config: the machine's baseline and what is installed there."""

    baseline: Baseline
    installed: tuple[str, ...] = ()
    ahead: Span = NOTHING
    """Pages of libraries that the kernel maps beyond the least."""


def default_setting(config: Config) -> Setting:
    """Numbers of this machine if they were measured, else those we ship."""
    kept = kept_baseline()
    if kept is not None:
        # measured with everything that the framework imports by itself
        return Setting(kept, ahead=mapped_ahead())
    extras = FRAMEWORKS[config.framework].installed_extras()
    return Setting(shipped_baseline(), extras, mapped_ahead())


def measured_setting(baseline: Baseline) -> Setting:
    """A setting with the measured size of a process that has imported everything."""
    # the imports' part of the pages that the kernel maps ahead is in that already
    return Setting(baseline, ahead=mapped_ahead(TRAINING_FACTOR - 1))


def mapped_ahead(factor: float = TRAINING_FACTOR) -> Span:
    """Pages that this kernel maps ahead, from none to what was sampled here or the most known."""
    seen = ahead_bytes()
    if seen is None:
        return Span(0, 0, round(factor * MOST_AHEAD_BYTES))
    return Span(0, round(factor * seen), round(1.2 * factor * seen))


@dataclass(frozen=True, slots=True)
class _Parts:
    job: Job
    storage: Storage
    update: Update
    workers: Workers
    machine: Hardware
    setting: Setting


def budget_of(
    config: Config,
    setting: Setting | None = None,
    where: Mapping[str, str] | None = None,
) -> Budget:
    """Predict one training; no checks and no recommendations yet."""
    setting = setting or default_setting(config)
    job = complete(config, where)
    machine = hardware(config.machine)
    extras = sum(extra_imports(job, setting.installed).values())
    parts = _Parts(
        job,
        job.framework.storage(job),
        update_of(job),
        workers_of(job, setting.baseline.child_bytes, extras),
        machine,
        setting,
    )
    rows = tuple(row for row in _rows(parts) if row.span.high or row.reserved_bytes)
    phases = _phases(rows, parts.update)
    peak_phase = max(phases, key=lambda name: phases[name].expected)
    main = phases[peak_phase]
    tree = main + sum((r.span for r in rows if r.where is Where.WORKERS), NOTHING)
    video = sum((r.span for r in rows if r.where is Where.VRAM), NOTHING)
    return Budget(
        title=_title(job),
        config=_plain(config),
        rows=rows,
        main=main,
        peak_phase=peak_phase,
        ram=Room(tree, machine.ram_bytes, machine.ram_source),
        vram=Room(video, machine.vram_bytes, machine.vram_source),
        training=_training(parts),
        assumed=job.assumed,
        phases=phases,
        refused=_refused(parts),
    )


def _refused(parts: _Parts) -> str:
    block, most = parts.storage.largest_block, parts.machine.reservable_bytes
    if block is None or most is None or parts.storage.on_gpu or block.total_bytes <= most:
        return ""
    return (
        f"{block.account} is one allocation of {format_bytes(block.total_bytes)}, and no more than "
        f"{format_bytes(most)} is granted at once ({parts.machine.reservable_source})"
    )


def _plain(config: Config) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(config)
    return plain


def _title(job: Job) -> str:
    shapes = ", ".join(f"{name} {box}".strip() for name, box in job.observation.items())
    env = job.config.env or "environment"
    return f"{job.config.framework} {job.algorithm.name} on {env} ({shapes}; {job.action})"


def _rows(parts: _Parts) -> Iterator[Row]:
    yield from _runtime_rows(parts)
    yield from (parts.job.framework.network_rows or _network_rows)(parts.job)
    yield from _buffer_rows(parts)
    yield from _update_rows(parts)
    yield from _worker_rows(parts)
    yield from _checkpoint_rows(parts)
    yield from vram_rows(parts.job, parts.storage)


def _runtime_rows(parts: _Parts) -> Iterator[Row]:
    job, baseline = parts.job, parts.setting.baseline
    is_torch = job.config.library == "torch"
    spread = baseline.spread
    yield _imports_row(job.config, baseline)
    yield Row(
        "libraries/mapped ahead",
        parts.setting.ahead,
        "file pages that this kernel maps beside those that are touched: how many depends on who "
        "read the file before; it can reclaim them",
        When.IMPORT,
    )
    for name, size in extra_imports(job, parts.setting.installed).items():
        yield Row(f"imports/{name}", Span.around(size, 0.6, 2.2), "measured once", When.IMPORT)
    if job.modules.trained and job.framework.imports_optimizer and is_torch:
        yield Row(
            "imports/first optimizer",
            Span.around(baseline.optimizer_bytes, 1 - spread, 1 + spread),
            "the first torch.optim constructor imports torch._dynamo",
            When.START,
        )
    if is_torch:
        yield Row(
            "libraries/torch code",
            parts.update.code,
            "pages of code that the first forward and backward pass touch",
            When.UPDATE,
        )
    threads = thread_count(job, parts.machine.cores)
    yield Row(
        "threads/stacks",
        Span.exact(stack_bytes(threads)),
        f"{threads} threads × 8 KiB touched of 8 MiB reserved",
        When.START,
        reserved_bytes=threads * (8 << 20),
    )
    if job.config.vec_env == "dummy" and job.framework.envs_in_main_process:
        yield _env_row(job, job.n_envs)
    if job.config.callbacks.evaluate and job.env_bytes:
        count = job.config.callbacks.evaluation_envs
        size = count * job.env_bytes
        formula = f"{count} envs × {job.env_bytes:,} B for evaluation"
        yield Row("env/evaluation", Span.around(size, 0.7, 1.5), formula, When.START)


def _imports_row(config: Config, baseline: Baseline) -> Row:
    library = config.library
    has_torch = library == "torch" or "torch" in config.imports
    size = baseline.runtime_bytes(config.framework, library, has_torch)
    named = ["Python", "numpy"]
    named += ["torch"] if has_torch else []
    named += [library] if library not in ("torch", "numpy") else []
    named += [config.framework] if config.framework != "custom" else []
    if library in ("torch", "numpy"):
        span, source = Span.around(size, 1 - baseline.spread, 1 + baseline.spread), baseline.source
    else:
        span, source = Span.around(size, 0.75, 1.5), f"{library}'s part was measured once"
    account = f"imports/{'torch' if library == 'numpy' and has_torch else library} and framework"
    return Row(account, span, f"{', '.join(named)}; {source}", When.IMPORT)


def _env_row(job: Job, count: int) -> Row:
    size = MB + count * (job.env_bytes + 5 * job.stored_observation_bytes)
    formula = f"1 MB + {count} envs × ({job.env_bytes:,} B + 5 observations)"
    return Row("env", Span.around(size, 0.7, 1.5), formula, When.START)


def _network_rows(job: Job) -> Iterator[Row]:
    if job.config.device == "cuda":
        return
    population = job.config.population
    custom = job.config.trained_parameters
    modules = job.modules.by_name if custom is None else {"your network": custom}
    trained = job.modules.trained if custom is None else custom
    for name, parameters in modules.items():
        size = parameters * FLOAT * population
        formula = f"{parameters:,} parameters × 4 B"
        if population > 1:
            formula += f" × {population} agents"
        yield Row(f"networks/{name}", Span.exact(size), formula, When.START)
    if not trained:
        return
    copies = job.optimizer_copies
    name = job.config.optimizer or job.algorithm.optimizer
    yield Row(
        "optimizer",
        Span.exact(copies * trained * FLOAT * population),
        f"{copies} × {trained:,} trained parameters × 4 B ({name})",
        When.UPDATE,
    )


def _buffer_rows(parts: _Parts) -> Iterator[Row]:
    job, storage = parts.job, parts.storage
    if storage.on_gpu:
        return
    for array in storage.arrays:
        resident = storage.resident_bytes(array, job.total_steps)
        reserved = array.total_bytes if resident < array.total_bytes else None
        formula = array.formula
        if reserved is not None and job.total_steps is not None:
            formula += f", {job.total_steps / storage.capacity:.0%} filled"
        when = When.START if array.eager else When.FILLED
        yield Row(array.account, Span.exact(resident), formula, when, reserved_bytes=reserved)
    if storage.copied_at_update_bytes:
        size = storage.copied_at_update_bytes
        yield Row(
            "rollout/copy",
            Span.exact(size),
            f"{size:,} B: the rollout is copied once when several environments are flattened",
            When.FILLED,
            transient=True,
        )


def _update_rows(parts: _Parts) -> Iterator[Row]:
    update, job = parts.update, parts.job
    if job.config.device == "cuda":
        # torch.tensor(array, device="cuda") makes no second array in RAM
        arrays = 1 if job.algorithm.is_on_policy else 2
        size = arrays * job.effective_batch * job.stored_observation_bytes
        yield Row(
            "update/batch",
            Span.around(size, 1, 2),
            f"{arrays} × {job.effective_batch:,} × {job.stored_observation_bytes:,} B on the way "
            "to VRAM",
            When.UPDATE,
            transient=True,
        )
        return
    if not update.live_bytes:
        return
    yield Row(
        "update/tensors",
        Span.around(update.live_bytes, 0.9, 1.15),
        update.live_formula,
        When.UPDATE,
        transient=True,
    )
    if update.scratch_bytes:
        yield Row(
            "update/scratch",
            Span.around(update.scratch_bytes, 0.7, 1.25),
            update.scratch_formula,
            When.UPDATE,
            transient=True,
        )
    yield Row(
        "allocator/free",
        update.heap,
        "holes that malloc keeps between tensors of less than 32 MiB",
        When.UPDATE,
        transient=True,
    )


def _worker_rows(parts: _Parts) -> Iterator[Row]:
    if parts.workers.span.high:
        yield Row(
            "workers/envs",
            parts.workers.span,
            parts.workers.formula,
            When.START,
            Where.WORKERS,
        )
    if parts.job.framework.worker_rows is not None:
        yield from parts.job.framework.worker_rows(parts.job, parts.storage)


def _checkpoint_rows(parts: _Parts) -> Iterator[Row]:
    job = parts.job
    callbacks = job.config.callbacks
    saves = callbacks.checkpoint_every is not None
    if not saves and not callbacks.save_replay_buffer:
        return
    weights = (job.modules.total + job.optimizer_copies * job.modules.trained) * FLOAT
    yield Row("checkpoint/model", Span.around(weights, 1, 1.05),
              f"networks and optimizer {weights:,} B", When.CHECKPOINT, Where.DISK)  # fmt: skip
    yield Row("checkpoint/buffers", Span.around(_SAVE_BYTES, 0.5, 2), "measured: 0.3 MB",
              When.CHECKPOINT, transient=True)  # fmt: skip
    if callbacks.save_replay_buffer and not job.algorithm.is_on_policy:
        size = parts.storage.total_bytes
        formula = "the whole allocation is written, however full"
        yield Row("checkpoint/replay", Span.exact(size), formula, When.CHECKPOINT, Where.DISK)
        yield Row(
            "replay/second copy",
            Span.exact(size),
            "loading builds the saved buffer beside the new, untouched one",
            When.RESUME,
            reserved_bytes=2 * size,
            transient=True,
        )


def _phases(rows: tuple[Row, ...], update: Update) -> dict[str, Span]:
    """The highest RSS of the main process in each phase."""
    main = [row for row in rows if row.where is Where.MAIN]
    order = (When.IMPORT, When.START, When.FILLED, When.UPDATE)
    found: dict[str, Span] = {}
    for index, when in enumerate(order):
        staying = [r.span for r in main if r.when in order[: index + 1] and not r.transient]
        passing = [r.span for r in main if r.when is when and r.transient]
        if when is When.FILLED:
            passing = []
        found[str(when)] = sum(staying + passing, NOTHING)
    staying = [row.span for row in main if row.when in order and not row.transient]
    copies = [row.span for row in main if row.when is When.FILLED and row.transient]
    if copies:
        # from the second update on, the copy exists beside gradients and what malloc holds
        held = Span.around(update.held_bytes, 0.2, 2.2)
        found["flatten"] = sum([*staying, held, *copies], NOTHING)
    saving = [row.span for row in main if row.when is When.CHECKPOINT]
    if saving:
        found["checkpoint"] = sum([*staying, *saving], NOTHING)
    resuming = [row.span for row in main if row.when is When.RESUME]
    if resuming:
        found["resume"] = sum(resuming, found[str(When.START)])
    return found


def _training(parts: _Parts) -> Training:
    job = parts.job
    total = job.total_steps
    config = job.config
    per_call = job.n_envs
    checkpoints = None
    if total is not None and config.callbacks.checkpoint_every is not None:
        checkpoints = total // per_call // config.callbacks.checkpoint_every
    speed = config.steps_per_second
    capacity = parts.storage.capacity
    reaches = total is None or total >= capacity
    until_full = capacity if capacity and reaches else None
    seconds = until_full / speed if until_full is not None and speed else None
    if job.algorithm.is_on_policy:
        steps = job.rollout_steps
        batches = -(-steps // max(job.effective_batch, 1))
        updates = batches * job.n_epochs
    else:
        steps = job.train_freq * job.n_envs
        batches = None
        updates = steps if job.gradient_steps < 0 else job.gradient_steps
    iterations = None if total is None else -(-total // steps)
    learning = iterations
    if iterations is not None and total is not None and not job.algorithm.is_on_policy:
        learning = max(total - job.learning_starts, 0) // steps
    return Training(
        steps_per_iteration=steps,
        batches_per_epoch=batches,
        updates_per_iteration=updates,
        iterations=iterations,
        gradient_steps=None if learning is None else learning * updates,
        checkpoints=checkpoints,
        steps_until_full=until_full,
        seconds_until_full=seconds,
    )
