"""What processes cost before any data is in them: imports, the first optimizer, workers.

Measured on Linux 6.18, glibc 2.36, CPython 3.11, torch 2.13 (CPU), stable-baselines3 2.9.2;
`ramledger plan --calibrate` replaces them with this machine's own.
"""

from dataclasses import dataclass, replace
from importlib.util import find_spec

from ramledger.plan.budget import Span
from ramledger.plan.complete_config import Job

MB = 1_000_000

_STACK_BYTES = 8192
_PYTHON = 14.4
_NUMPY = 14.0
_TORCH = 201.5
_FRAMEWORK = {"sb3": 7.7, "cleanrl": 4.8, "elegantrl": 3.3, "rllib": 188.0, "ramledger": 19.6}
# the first torch.optim constructor imports torch._dynamo
_OPTIMIZER = 76.3
# what SB3 imports when it is installed, and what scripts import by themselves; pandas takes twice
# as much when it finds pyarrow
IMPORT_MB = {
    "pandas": 32.7, "matplotlib": 28.9, "tensorboard": 6.0, "cv2": 16.4, "sb3_contrib": 0.8,
    "ale_py": 6.3, "ray": 38.6,
}  # fmt: skip
# a child that imports torch again: private pages
_FRESH_CHILD = 150.0
_PRIVATE_SHARE = 0.35
# what a fork shares is copied as the main process counts references in it: 0 to 65 MB seen
_FORK_ONCE, _FORK_EACH = 60.0, 4.3
_FORKSERVER_ONCE = 10.0
_PRELOAD_ONCE, _PRELOAD_EACH = 164.0, 6.6
# ray 2.60: its daemons and idle workers, and what an env runner adds (PPO on CartPole, 0 and 2
# runners, PSS of the tree beyond the RSS of the driver)
_RAY_ONCE, _RAY_RUNNER = 310.0, 240.0
# the driver of DQN beyond that of PPO, after 1,000 steps; one run
_RLLIB_OFF_POLICY = 60.0


@dataclass(frozen=True, slots=True)
class Baseline:
    """Import costs of one machine, in bytes."""

    runtime: dict[str, int]
    optimizer_bytes: int
    child_bytes: int
    source: str
    spread: float = 0.06

    def measured(self, framework: str, runtime_bytes: int) -> "Baseline":
        """The same with what a process of that framework was seen to take."""
        runtime = {**self.runtime, framework: runtime_bytes}
        return replace(self, runtime=runtime, source="this process as it is", spread=0.01)


def shipped_baseline() -> Baseline:
    """The numbers this file was written with."""
    shared = _PYTHON + _NUMPY + _TORCH
    return Baseline(
        {name: round((shared + own) * MB) for name, own in _FRAMEWORK.items()},
        round(_OPTIMIZER * MB),
        round(_FRESH_CHILD * MB),
        "measured on another machine; --calibrate measures this one",
    )


def installed_extras(framework: str) -> tuple[str, ...]:
    """What a framework would import here by itself; nothing is imported to find out."""
    if framework == "elegantrl":
        # its evaluator draws the learning curve
        return ("matplotlib",) if find_spec("matplotlib") is not None else ()
    if framework != "sb3" or find_spec("stable_baselines3") is None:
        return ()
    found = [name for name in ("cv2", "pandas", "tensorboard") if find_spec(name) is not None]
    # results_plotter imports pyplot only after pandas
    if "pandas" in found and find_spec("matplotlib") is not None:
        found.append("matplotlib")
    return tuple(found)


def extra_imports(job: Job, installed: tuple[str, ...]) -> dict[str, int]:
    """Libraries beside torch and the framework, with their bytes."""
    names = dict.fromkeys((*installed, *job.config.imports))
    found = {name: round(IMPORT_MB[name] * MB) for name in names if name in IMPORT_MB}
    if job.config.framework == "rllib" and not job.algorithm.is_on_policy:
        found["off-policy learner"] = round(_RLLIB_OFF_POLICY * MB)
    return found


@dataclass(frozen=True, slots=True)
class Workers:
    """Processes beside the main one."""

    count: int
    span: Span
    formula: str


def workers_of(job: Job, baseline: Baseline, extras_bytes: int) -> Workers:
    """Memory of environment workers, with shared pages counted once."""
    config = job.config
    if config.framework == "rllib":
        return _rllib_workers(job)
    if config.framework == "elegantrl" and config.num_env_runners:
        return _fresh(job, config.num_env_runners, baseline.child_bytes, "ElegantRL worker")
    if config.vec_env == "dummy":
        return Workers(0, Span.exact(0), "")
    count = config.n_envs
    own = job.env_bytes
    # code pages of libraries are shared with the main process
    fresh = baseline.child_bytes + round(_PRIVATE_SHARE * extras_bytes)
    if config.start_method == "fork":
        once, each = round(_FORK_ONCE * MB), round(_FORK_EACH * MB) + own
    elif config.start_method == "forkserver-preload":
        once, each = round(_PRELOAD_ONCE * MB) + extras_bytes, round(_PRELOAD_EACH * MB) + own
    else:
        once, each = round(_FORKSERVER_ONCE * MB), fresh + own
    is_fork = config.start_method == "fork"
    span = Span(
        round(count * each * 0.85) if is_fork else round(0.85 * (once + count * each)),
        once + count * each,
        round(1.2 * (once + count * each)),
    )
    return Workers(
        count,
        span,
        f"{once:,} B once + {count} × {each:,} B ({config.start_method})",
    )


def _fresh(job: Job, count: int, child_bytes: int, what: str) -> Workers:
    each = child_bytes + job.env_bytes
    return Workers(count, Span.around(count * each, 0.85, 1.25), f"{count} × {each:,} B ({what})")


def _rllib_workers(job: Job) -> Workers:
    config = job.config
    count = config.num_env_runners + config.num_learners
    each = round(_RAY_RUNNER * MB) + job.env_bytes * job.n_envs + 4 * job.modules.total
    once = round(_RAY_ONCE * MB)
    return Workers(
        count,
        Span.around(once + count * each, 0.7, 1.5),
        f"ray {once:,} B + {count} runners and learners × {each:,} B",
    )


def thread_count(job: Job, cores: int) -> int:
    """Threads of the main process: OpenBLAS, OpenMP and, once set_num_threads was called, more."""
    threads = job.config.torch_threads
    if threads is None:
        return 1 + (cores - 1) + (cores - 1)
    return 1 + (cores - 1) + 2 * (threads - 1)


def stack_bytes(threads: int) -> int:
    """Stacks that are touched; 8 MiB each is reserved, and is not RAM."""
    return threads * _STACK_BYTES
