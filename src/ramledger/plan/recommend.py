"""What to change: each candidate is planned anew, and its saving is the difference."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ramledger.errors import RamledgerError
from ramledger.plan.budget import Budget, Recommendation
from ramledger.plan.complete_config import complete
from ramledger.plan.frameworks.own_trainer import learners_of
from ramledger.plan.frameworks.sb3 import keeps_rollout_dtype
from ramledger.plan.job import Job
from ramledger.plan.largest_fit import largest
from ramledger.plan.plan_config import Config, Versions
from ramledger.plan.predict import Setting, budget_of
from ramledger.units import MIB, format_bytes

_PRICES = {
    "buffer_size": "less experience to learn from",
    "population": "fewer agents to select from",
}
# less than this is not worth a change
_LEAST_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that might save memory, and what else it does."""

    change: str
    why: str
    set: Mapping[str, Any]
    costs: str = ""
    apply: str = ""


def recommendations_of(job: Job, budget: Budget, setting: Setting) -> tuple[Recommendation, ...]:
    """The changes that save most; those that make it fit come first."""
    found: list[tuple[bool, int, Candidate]] = []
    for candidate in _candidates(job, budget, setting):
        changed = _replanned(job.config, candidate.set, setting)
        if changed is None:
            continue
        saved = budget.ram.needed.expected - changed.ram.needed.expected
        saved += max(budget.vram.needed.expected - changed.vram.needed.expected, 0)
        if saved >= _LEAST_BYTES:
            makes_it_fit = changed.fits and not budget.fits
            found.append((makes_it_fit, saved, candidate))
    found.sort(key=lambda item: (not item[0], item[1] * -1))
    return tuple(
        Recommendation(
            rank, item.change, item.why + (" It then fits." if fits else ""), saved, item.costs,
            item.set, item.apply,
        )
        for rank, (fits, saved, item) in enumerate(found[:6], 1)
    )  # fmt: skip


def with_remedies(config: Config, names: Collection[str], setting: Setting) -> Config:
    """The config as it is with these remedies of `run --apply` in force."""
    job, budget = complete(config), budget_of(config, setting)
    for candidate in _candidates(job, budget, setting):
        if candidate.apply in names:
            config = msgspec.structs.replace(config, **candidate.set)
    return config


def _replanned(config: Config, changes: Mapping[str, Any], setting: Setting) -> Budget | None:
    try:
        return budget_of(msgspec.structs.replace(config, **changes), setting)
    except RamledgerError:
        return None


def _candidates(job: Job, budget: Budget, setting: Setting) -> Iterator[Candidate]:
    if job.config.framework == "ramledger":
        yield from _for_populations(job)
    elif job.algorithm.is_on_policy:
        yield from _for_rollouts(job)
    else:
        yield from _for_replay(job)
    yield from _for_processes(job)
    if job.config.device == "cpu" and not job.config.mmap_threshold:
        yield Candidate(
            "start it with MALLOC_MMAP_THRESHOLD_=1048576",
            "Freed blocks of 1 MiB and more then go back to the system at once.",
            {"mmap_threshold": True},
            "updates took up to 16 % longer",
            "malloc",
        )
    if not budget.fits:
        yield from _to_fit(job, budget, setting)


def _for_rollouts(job: Job) -> Iterator[Candidate]:
    config = job.config
    if job.n_steps > 1 and job.algorithm.name != "ARS":
        half = max(job.n_steps // 2, 1)
        batch = min(job.batch_size, half * job.n_envs) or None
        yield Candidate(
            f"n_steps {job.n_steps:,} → {half:,}",
            "The rollout halves."
            if config.rollout_frames_once
            else "The rollout and its copy halve.",
            {"n_steps": half, "batch_size": batch},
            "updates come twice as often, on half the data",
        )
    if not keeps_rollout_dtype(job):
        yield Candidate(
            "upgrade stable-baselines3 to 2.7.1 or newer",
            "Rollouts then keep the observations' dtype.",
            {"versions": Versions(stable_baselines3="2.7.1")},
        )
    if config.framework != "sb3":
        yield from _frames_once(config)
    elif not config.rollout_frames_once:
        yield Candidate(
            "store each frame once, and no copy for updates"
            if config.frame_stack > 1
            else "no copy of the rollout for updates",
            f"A frame is in {config.frame_stack} stacks, and a rollout is copied to be flattened."
            if config.frame_stack > 1
            else "A rollout of several environments is copied to be flattened.",
            {"rollout_frames_once": True},
            "none: the training computes the same numbers",
            "rollout",
        )


def _for_replay(job: Job) -> Iterator[Candidate]:
    config = job.config
    if config.framework == "sb3" and not config.optimize_memory_usage and "" in job.observation:
        once = {"optimize_memory_usage": True, "handle_timeout_termination": False}
        frames = config.frame_stack > 1 and not config.replay_frames_once
        yield Candidate(
            "store each frame once" if frames else "store each observation once",
            "A frame is in every stack that it belongs to, and each stack is stored twice."
            if frames
            else "The next observation is stored again, as the observation of the next step.",
            once | ({"replay_frames_once": True} if frames else {}),
            "none: the training computes the same numbers",
            "replay",
        )
    else:
        yield from _frames_once(config)
    if job.config.framework == "elegantrl" and job.n_envs > 1:
        yield Candidate(
            f"buffer_size {job.buffer_size:,} → {job.buffer_size // job.n_envs:,}",
            "ElegantRL multiplies it by the environments.",
            {"buffer_size": max(job.buffer_size // job.n_envs, 1)},
            f"{job.buffer_size:,} transitions in all, as the number suggests",
        )


def _for_populations(job: Job) -> Iterator[Candidate]:
    config, own = job.config, job.config.trainer
    learners = learners_of(job)
    chunk = min(own.agents_per_chunk or learners, learners)
    if chunk > 1:
        fewer = max(chunk // 4, 1)
        yield Candidate(
            f"agents_per_chunk = {fewer}",
            f"Gradients and activations of {fewer} agents at a time instead of {chunk}.",
            {"trainer": msgspec.structs.replace(own, agents_per_chunk=fewer)},
            "updates are slower; the learning is the same",
        )
    if not own.shared_batch and learners > 1:
        yield Candidate(
            "shared_batch = true",
            f"One minibatch for all instead of {learners}.",
            {"trainer": msgspec.structs.replace(own, shared_batch=True)},
            "agents learn from the same transitions",
        )
    if config.population > 1:
        half = config.population // 2
        yield Candidate(
            f"population {config.population:,} → {half:,}",
            "Networks, targets and moments halve.",
            {"population": half, "n_envs": max(config.n_envs // 2, 1)},
            "fewer agents to select from",
        )


def _frames_once(config: Config) -> Iterator[Candidate]:
    if config.frame_stack > 1 and not config.replay_frames_once and config.framework != "rllib":
        yield Candidate(
            "store single frames, stack them when sampling",
            f"A frame is in {config.frame_stack} stacks, and stored in each of them.",
            {"replay_frames_once": True},
            "a buffer class of its own; the learning is the same",
        )


def _for_processes(job: Job) -> Iterator[Candidate]:
    config = job.config
    if config.vec_env == "subproc" and config.start_method in ("forkserver", "spawn"):
        yield Candidate(
            "start_method='fork'",
            "Workers share the pages of what was imported before.",
            {"start_method": "fork"},
            "unsafe after CUDA or threads were started",
        )
        yield Candidate(
            "multiprocessing.set_forkserver_preload(['stable_baselines3'])",
            "The fork server imports once, and workers share it.",
            {"start_method": "forkserver-preload"},
            apply="workers" if config.start_method == "forkserver" else "",
        )


def _to_fit(job: Job, budget: Budget, setting: Setting) -> Iterator[Candidate]:
    field = "n_steps" if job.algorithm.is_on_policy else "buffer_size"
    if job.config.framework == "ramledger":
        field = "population"
    if not budget.vram.fits:
        field = "batch_size"
    present = job.config.population if field == "population" else getattr(job, field)
    found = largest(job.config, field, setting)
    if found is None or found >= present:
        return
    limit = budget.ram if budget.vram.fits else budget.vram
    yield Candidate(
        f"{field} {present:,} → {found:,}",
        f"The largest that stays inside {format_bytes(limit.limit_bytes or 0)}.",
        {field: found},
        _PRICES.get(field, "smaller updates"),
    )
