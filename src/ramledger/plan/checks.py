"""What is wrong, costly or worth knowing about a config: one function a rule.

`CHECKS` lists all that a plan may print; docs/plan.md shows it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from ramledger.errors import RamledgerError
from ramledger.plan.budget import Budget, Check, Severity, Where
from ramledger.plan.complete_config import complete
from ramledger.plan.frameworks.sb3 import keeps_rollout_dtype
from ramledger.plan.job import Job
from ramledger.plan.plan_config import Config, config_from, merged
from ramledger.plan.predict import Setting, budget_of
from ramledger.plan.sources.source_result import SearchRange
from ramledger.plan.target_machine import hardware
from ramledger.units import MIB, format_bytes

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

CHECKS: dict[str, tuple[tuple[Severity, ...], str]] = {
    "batch-larger-than-buffer": ((_ERROR,), "a batch that no rollout or buffer can fill"),
    "batch-not-dividing": ((_WARNING,), "`n_steps` × `n_envs` is no multiple of `batch_size`"),
    "less-than-one-rollout": ((_WARNING,), "fewer steps in all than one rollout collects"),
    "never-learns": ((_ERROR,), "`learning_starts` lies beyond the last step"),
    "buffer-never-full": ((_NOTE,), "a capacity that the planned steps do not reach"),
    "frame-stack": ((_NOTE,), "each frame is stored once in every stack that it is part of"),
    "replay-next-obs": ((_NOTE,), "next observations repeat the observations"),
    "replay-options-contradict": ((_ERROR,), "options of a buffer that refuse each other"),
    "rollout-float32": ((_WARNING,), "stable-baselines3 before 2.7.1 stores images as float32"),
    "rollout-swap-copy": ((_WARNING,), "several environments: a rollout is copied at each update"),
    "subproc-start-method": ((_WARNING,), "each worker of environments imports torch anew"),
    "thread-oversubscription": ((_WARNING,), "more threads and workers than cores"),
    "few-envs": ((_NOTE,), "cores and RAM are there for more environments"),
    "episode-longer-than-rollout": ((_NOTE,), "episodes are cut by the end of a rollout"),
    "rollout-longer-than-episodes": ((_NOTE,), "a rollout holds many episodes"),
    "callback-not-registered": ((_ERROR,), "a callback is built and never handed to `learn`"),
    "no-replay-buffer": ((_ERROR, _NOTE), "an on-policy algorithm has no replay buffer"),
    "no-target-network": ((_ERROR,), "target networks that the algorithm does not have"),
    "save-replay-cost": ((_WARNING,), "what checkpoints of the replay buffer cost"),
    "save-frequency": ((_NOTE,), "callbacks count calls, and a call is a step of every env"),
    "never-saves": ((_WARNING,), "the first checkpoint lies beyond the last step"),
    "elegantrl-buffer": ((_NOTE,), "ElegantRL's `buffer_size` is that of each environment"),
    "search-range": ((_ERROR, _WARNING, _NOTE), "the largest corner of an Optuna search"),
    "reservation-refused": ((_ERROR,), "an array that the kernel would not even reserve"),
    "vram-unknown": ((_NOTE,), "a GPU is used, and its VRAM was not given"),
}


def checks_table() -> str:
    """The table of docs/plan.md, as Markdown."""
    lines = ["| check | severity | finds |", "|---|---|---|"]
    for name, (severities, finds) in CHECKS.items():
        lines.append(f"| `{name}` | {' or '.join(severities)} | {finds} |")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class RuleInput:
    """What a rule reads."""

    job: Job
    budget: Budget
    setting: Setting
    places: Mapping[str, str]
    cores: int

    @property
    def config(self) -> Config:
        return self.job.config

    def at(self, field: str) -> str:
        """Where a field is written; for one left to its default, where a related field is."""
        for name in (field, *_BESIDE.get(field, ()), "algorithm"):
            if name in self.places:
                return self.places[name]
        return field


_STORED_ONCE = "ramledger run --apply {} stores them once, and computes the same numbers"
_BESIDE = {"start_method": ("vec_env", "n_envs"), "torch_threads": ("vec_env", "n_envs")}
# how many smaller batch sizes are tried to find one that divides the rollout
_TRIED = 100_000

Rule = Callable[[RuleInput], Iterator[Check]]


def checks_of(
    job: Job, budget: Budget, setting: Setting, places: Mapping[str, str]
) -> tuple[Check, ...]:
    """Every rule that has something to say, the worst first."""
    case = RuleInput(job, budget, setting, places, hardware(job.config.machine).cores)
    return worst_first(check for rule in RULES for check in rule(case))


def worst_first(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Errors before warnings before notes."""
    order = list(Severity)
    return tuple(sorted(checks, key=lambda check: order.index(check.severity)))


def _batch(case: RuleInput) -> Iterator[Check]:
    job, at = case.job, case.at("batch_size")
    batch = job.batch_size
    if job.algorithm.is_on_policy:
        rows = job.rollout_steps
        size = f"n_steps × n_envs = {job.n_steps:,} × {job.n_envs} = {rows:,}"
        if batch > rows:
            yield Check(
                "batch-larger-than-buffer", Severity.ERROR, at,
                f"batch_size {batch:,} is more than the {rows:,} transitions of a rollout "
                f"({size}): every epoch is one batch of {rows:,}",
                f"set batch_size to {rows:,} or less, or n_steps to {-(-batch // job.n_envs):,}",
            )  # fmt: skip
        elif batch and rows % batch:
            near = (b for b in range(batch, max(batch - _TRIED, 0), -1) if rows % b == 0)
            fitting = next(near, math.gcd(rows, batch))
            yield Check(
                "batch-not-dividing", Severity.WARNING, at,
                f"batch_size {batch:,} does not divide a rollout of {rows:,} ({size}): "
                f"the last batch of every epoch has {rows % batch:,}",
                f"set batch_size to {fitting:,}",
            )  # fmt: skip
    elif batch > job.buffer_size > 0:
        yield Check(
            "batch-larger-than-buffer", Severity.ERROR, at,
            f"batch_size {batch:,} is more than buffer_size {job.buffer_size:,}: "
            "every batch repeats transitions",
            f"set buffer_size to {10 * batch:,} or more",
        )  # fmt: skip


def _steps(case: RuleInput) -> Iterator[Check]:
    job, total = case.job, case.job.total_steps
    if total is None:
        return
    rows = job.rollout_steps
    if job.algorithm.is_on_policy and total < rows:
        yield Check(
            "less-than-one-rollout", Severity.WARNING, case.at("total_steps"),
            f"{total:,} steps are less than one rollout of {rows:,}, which is collected anyway",
            f"set n_steps to {max(total // job.n_envs, 1):,} or less",
        )  # fmt: skip
    if not job.algorithm.is_on_policy and total <= job.learning_starts:
        yield Check(
            "never-learns", Severity.ERROR, case.at("learning_starts"),
            f"learning_starts {job.learning_starts:,} is not reached in {total:,} steps",
            "lower learning_starts",
        )  # fmt: skip


def _capacity(case: RuleInput) -> Iterator[Check]:
    job, total = case.job, case.job.total_steps
    storage = job.framework.storage(job)
    if job.algorithm.is_on_policy or total is None or not storage.capacity:
        return
    if total < storage.capacity:
        unused = storage.total_bytes * (storage.capacity - total) // storage.capacity
        is_own = case.config.framework == "ramledger"
        written = "" if is_own else ", but are written by save_replay_buffer"
        yield Check(
            "buffer-never-full", Severity.NOTE, case.at("buffer_size"),
            f"{total:,} steps fill {total / storage.capacity:.0%} of {storage.capacity:,} "
            f"transitions; {format_bytes(unused)} stay reserved and untouched{written}",
            f"set {'capacity' if is_own else 'buffer_size'} to {total:,}",
        )  # fmt: skip


def _frames(case: RuleInput) -> Iterator[Check]:
    job = case.job
    frames = case.config.frame_stack
    if frames <= 1 or case.config.replay_frames_once or case.config.rollout_frames_once:
        return
    rows = [r for r in case.budget.rows if "observations" in r.account and not r.transient]
    size = sum(row.span.expected for row in rows)
    if size < 64 * MIB:
        return
    copies = 1 if job.algorithm.is_on_policy or case.config.optimize_memory_usage else 2
    once = size // (frames * copies)
    yield Check(
        "frame-stack", Severity.NOTE, case.at("frame_stack"),
        f"every frame is stored {frames * copies} times: {format_bytes(size)} "
        f"for {format_bytes(once)} of frames",
        _STORED_ONCE.format("rollout" if job.algorithm.is_on_policy else "replay")
        if case.config.framework == "sb3"
        else "a buffer that stores single frames and stacks them when sampling",
    )  # fmt: skip


def _next_observations(case: RuleInput) -> Iterator[Check]:
    config, job = case.config, case.job
    if config.optimize_memory_usage and config.handle_timeout_termination:
        if not job.algorithm.is_on_policy and config.framework == "sb3":
            yield Check(
                "replay-options-contradict", Severity.ERROR, case.at("optimize_memory_usage"),
                "stable-baselines3 refuses optimize_memory_usage together with "
                "handle_timeout_termination, and the latter is its default",
                "add replay_buffer_kwargs=dict(handle_timeout_termination=False)",
            )  # fmt: skip
        return
    again = sum(row.span.expected for row in case.budget.rows if "next_observations" in row.account)
    if again >= 64 * MIB and "" in job.observation:
        yield Check(
            "replay-next-obs", Severity.NOTE, case.at("optimize_memory_usage"),
            f"next_observations repeat the observations one row later: {format_bytes(again)}",
            _STORED_ONCE.format("replay") if config.framework == "sb3"
            else "a buffer that stores observations once",
        )  # fmt: skip


def _rollout(case: RuleInput) -> Iterator[Check]:
    job, config = case.job, case.config
    if not job.algorithm.is_on_policy or config.framework != "sb3":
        return
    version = config.versions.stable_baselines3
    if version and not keeps_rollout_dtype(job):
        boxes = [box for box in job.observation.values() if box.item_bytes < 4]
        if boxes:
            yield Check(
                "rollout-float32", Severity.WARNING, case.at("versions"),
                f"stable-baselines3 {version} stores {boxes[0].dtype} observations as float32, "
                f"{4 // boxes[0].item_bytes} times their size",
                "upgrade to stable-baselines3 2.7.1 or newer",
            )  # fmt: skip
    copy = case.budget.row("rollout/copy")
    if copy is not None and copy.span.expected >= 64 * MIB:
        yield Check(
            "rollout-swap-copy", Severity.WARNING, case.at("n_envs"),
            f"with {job.n_envs} environments the rollout is copied once per update: "
            f"{format_bytes(copy.span.expected)} more for a moment",
            "ramledger run --apply rollout makes none, and computes the same numbers",
        )  # fmt: skip


def _workers(case: RuleInput) -> Iterator[Check]:
    config, job = case.config, case.job
    if config.vec_env == "subproc" and config.start_method in ("forkserver", "spawn"):
        size = sum(row.span.expected for row in case.budget.rows_in(Where.WORKERS))
        default = " (the default of SubprocVecEnv)" if config.start_method == "forkserver" else ""
        yield Check(
            "subproc-start-method", Severity.WARNING, case.at("start_method"),
            f"{config.start_method}{default} imports torch in each of {job.n_envs} workers: "
            f"{format_bytes(size)}",
            ("ramledger run --apply workers, or " if default else "")
            + "SubprocVecEnv(…, start_method='fork'), or "
            "multiprocessing.set_forkserver_preload(['torch', 'stable_baselines3'])",
        )  # fmt: skip


def _threads(case: RuleInput) -> Iterator[Check]:
    config, job, cores = case.config, case.job, case.cores
    processes = job.n_envs if config.vec_env == "subproc" else 0
    if config.framework in ("elegantrl", "rllib"):
        processes = config.num_env_runners
    threads = config.torch_threads or 1
    if threads <= cores and (not processes or threads + processes <= 2 * cores):
        return
    left = max(cores - processes, 1)
    fixes = []
    if threads > left:
        fixes.append(f"torch.set_num_threads({left})")
    if processes > cores:
        fixes.append(f"{cores} workers")
    yield Check(
        "thread-oversubscription", Severity.WARNING, case.at("torch_threads"),
        f"{threads} torch threads and {processes} workers share {cores} cores: "
        "slower, not larger (a stack holds 8 KiB, not 8 MiB)",
        ", ".join(fixes) or f"{max(2 * cores - threads, 1)} workers or fewer",
    )  # fmt: skip


def _few_envs(case: RuleInput) -> Iterator[Check]:
    config, job = case.config, case.job
    limit = case.budget.ram.limit_bytes
    if config.framework != "sb3" or limit is None or job.n_envs * 2 > case.cores:
        return
    more = case.cores
    changes = {"n_envs": more}
    if job.algorithm.is_on_policy:
        changes["n_steps"] = max(job.rollout_steps // more, 1)
    try:
        wider = budget_of(msgspec.structs.replace(config, **changes), case.setting)
    except RamledgerError:
        return
    if wider.ram.needed.high > limit:
        return
    keeping = (
        f" with n_steps {changes['n_steps']:,}, the same rollout" if "n_steps" in changes else ""
    )
    yield Check(
        "few-envs", Severity.NOTE, case.at("n_envs"),
        f"{job.n_envs} environments on {case.cores} cores; {more}{keeping} would need "
        f"{format_bytes(wider.ram.needed.expected)} of {format_bytes(limit)}",
        f"n_envs = {more}" + (f", n_steps = {changes['n_steps']}" if keeping else ""),
    )  # fmt: skip


def _episodes(case: RuleInput) -> Iterator[Check]:
    job, length = case.job, case.config.episode_length
    if not job.algorithm.is_on_policy or length is None:
        return
    if job.n_steps < length:
        yield Check(
            "episode-longer-than-rollout", Severity.NOTE, case.at("n_steps"),
            f"an episode of {length:,} steps spans {length / job.n_steps:.1f} rollouts: "
            "returns are bootstrapped from the value network at every cut",
            f"n_steps = {length:,} costs "
            f"{format_bytes(job.n_envs * (length - job.n_steps) * job.stored_observation_bytes)}"
            " more, if that matters to you",
        )  # fmt: skip
    elif job.n_steps >= 4 * length:
        yield Check(
            "rollout-longer-than-episodes", Severity.NOTE, case.at("n_steps"),
            f"a rollout of {job.n_steps:,} steps holds {job.n_steps // length} episodes per env",
            "fewer n_steps update more often and store less",
        )  # fmt: skip


def _saving(case: RuleInput) -> Iterator[Check]:
    config, job = case.config, case.job
    callbacks = config.callbacks
    if callbacks.save_replay_buffer and job.algorithm.is_on_policy:
        yield Check(
            "no-replay-buffer", Severity.NOTE, case.at("callbacks"),
            f"{job.algorithm.name} has no replay buffer: save_replay_buffer does nothing, "
            "and holds no memory",
            "remove save_replay_buffer",
        )  # fmt: skip
    elif callbacks.save_replay_buffer:
        size = job.framework.storage(job).total_bytes
        yield Check(
            "save-replay-cost", Severity.WARNING, case.at("callbacks"),
            f"each checkpoint writes the whole buffer, {format_bytes(size)}, however full; "
            "saving adds no RAM, resuming holds a second buffer",
            "save the buffer less often, or only at the end",
        )  # fmt: skip
    every = callbacks.checkpoint_every
    if every is not None and job.n_envs > 1:
        yield Check(
            "save-frequency", Severity.NOTE, case.at("callbacks"),
            f"the callback counts calls, and a call is {job.n_envs} steps: every {every:,} calls "
            f"is every {every * job.n_envs:,} steps",
            f"save_freq = max({every:,} // n_envs, 1) for every {every:,} steps",
        )  # fmt: skip
    if every is not None and job.total_steps and every * job.n_envs > job.total_steps:
        yield Check(
            "never-saves", Severity.WARNING, case.at("callbacks"),
            f"{every:,} calls × {job.n_envs} envs is more than {job.total_steps:,} steps",
            f"save_freq = {max(job.total_steps // job.n_envs // 10, 1):,}",
        )  # fmt: skip


def _elegantrl(case: RuleInput) -> Iterator[Check]:
    job = case.job
    if case.config.framework != "elegantrl" or job.algorithm.is_on_policy or job.n_envs == 1:
        return
    yield Check(
        "elegantrl-buffer", Severity.NOTE, case.at("buffer_size"),
        f"ElegantRL gives each of {job.n_envs} environments a ring of {job.buffer_size:,}",
        f"buffer_size = {max(job.buffer_size // job.n_envs, 1):,} keeps "
        f"{job.buffer_size:,} transitions in all",
    )  # fmt: skip


def _refused(case: RuleInput) -> Iterator[Check]:
    if case.budget.refused:
        yield Check(
            "reservation-refused", Severity.ERROR, case.at("buffer_size"),
            f"{case.budget.refused}: it fails when the buffer is made",
            "a smaller buffer_size, or vm.overcommit_memory = 1 if little of it is ever filled",
        )  # fmt: skip


def _host_memory(case: RuleInput) -> Iterator[Check]:
    if case.config.device == "cuda" and case.budget.vram.limit_bytes is None:
        yield Check(
            "vram-unknown", Severity.NOTE, case.at("machine"),
            f"VRAM {format_bytes(case.budget.vram.needed.expected)} expected, and no limit given",
            "--vram 16GiB",
        )  # fmt: skip


RULES: tuple[Rule, ...] = (
    _batch, _steps, _capacity, _frames, _next_observations, _rollout, _workers, _threads, _few_envs,
    _episodes, _saving, _elegantrl, _refused, _host_memory,
)  # fmt: skip


def _shown(found: SearchRange) -> str:
    text = str(found.high)
    return f"{found.field} = {text}" if len(text) < 60 else f"the largest {found.field}"


def range_checks(
    config: Config, ranges: tuple[SearchRange, ...], setting: Setting
) -> tuple[Check, ...]:
    """Search spaces whose largest corner does not fit, or has more threads than cores."""
    if not ranges:
        return ()
    corner = {r.field: r.high for r in ranges}
    names = ", ".join(_shown(r) for r in ranges)
    try:
        changed = config_from(merged(msgspec.to_builtins(config), corner))
        worst, job = budget_of(changed, setting), complete(changed)
    except RamledgerError as error:
        message = f"the largest corner ({names}) cannot be planned: {error.message}"
        fix = error.hint or "narrow the range"
        return (Check("search-range", Severity.WARNING, ranges[0].where, message, fix),)
    needs = f"the largest corner ({names}) needs {format_bytes(worst.ram.needed.expected)}"
    if worst.refused:
        severity, fix = Severity.ERROR, "narrow the range"
        needs = f"the largest corner ({names}): {worst.refused}"
    elif not worst.fits:
        room = worst.vram if not worst.vram.fits else worst.ram
        over = format_bytes(room.needed.expected - (room.limit_bytes or 0))
        what = "VRAM" if room is worst.vram else "RAM"
        severity, fix = Severity.ERROR, "narrow the range, or prune such trials before they start"
        needs = f"{needs}, {over} more {what} than there is"
    else:
        severity, fix = Severity.NOTE, "nothing to do"
        needs = f"{needs}, and fits"
    found = [Check("search-range", severity, ranges[0].where, needs, fix)]
    places = {r.field: r.where for r in ranges}
    case = RuleInput(job, worst, setting, places, hardware(changed.machine).cores)
    found += [
        replace(check, message=f"at the largest corner: {check.message}")
        for check in _threads(case)
        if check.where in places.values()
    ]
    return tuple(found)
