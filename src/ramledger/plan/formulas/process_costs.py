"""What processes cost beside the training's data: extra imports, environment workers, threads.

Measured on Linux 6.18, glibc 2.36, CPython 3.11, torch 2.13 (CPU), stable-baselines3 2.9.2.
"""

from dataclasses import dataclass

from ramledger.plan.budget import Span
from ramledger.plan.job import Job

MB = 1_000_000

_STACK_BYTES = 8192
# what SB3 imports when it is installed, and what scripts import by themselves; pandas takes twice
# as much when it finds pyarrow
IMPORT_MB = {
    "pandas": 32.7, "matplotlib": 28.9, "tensorboard": 6.0, "cv2": 16.4, "sb3_contrib": 0.8,
    "ale_py": 6.3, "ray": 38.6, "mujoco": 26.0, "distrax": 47.0, "gymnax": 140.0,
}  # fmt: skip
# jax 0.10 with flax and optax, tensorflow 2.21 with keras, once a first step was compiled; what
# later ones add depends on their shapes
LIBRARY_MB = {"jax": 275.0, "tensorflow": 570.0, "numpy": 0.0}
_PRIVATE_SHARE = 0.35
# what a fork shares is copied as the main process counts references in it: 0 to 65 MB seen
_FORK_ONCE, _FORK_EACH = 60.0, 4.3
_FORKSERVER_ONCE = 10.0
_PRELOAD_ONCE, _PRELOAD_EACH = 164.0, 6.6


def extra_imports(job: Job, installed: tuple[str, ...]) -> dict[str, int]:
    """Libraries beside torch and the framework, with their bytes."""
    names = dict.fromkeys((*installed, *job.config.imports))
    found = {name: round(IMPORT_MB[name] * MB) for name in names if name in IMPORT_MB}
    own = job.framework.extra_imports
    return found if own is None else found | own(job)


@dataclass(frozen=True, slots=True)
class Workers:
    """Processes beside the main one."""

    count: int
    span: Span
    formula: str


def workers_of(job: Job, child_bytes: int, extras_bytes: int) -> Workers:
    """Memory of environment workers, with shared pages counted once.

    `child_bytes` are private to a process that imports torch again.
    """
    config = job.config
    if job.framework.workers is not None:
        found = job.framework.workers(job, child_bytes)
        if found is not None:
            return found
    if config.vec_env == "dummy":
        return Workers(0, Span.exact(0), "")
    count = config.n_envs
    own = job.env_bytes
    # code pages of libraries are shared with the main process
    fresh = child_bytes + round(_PRIVATE_SHARE * extras_bytes)
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


def thread_count(job: Job, cores: int) -> int:
    """Threads of the main process: OpenBLAS, OpenMP and, once set_num_threads was called, more."""
    threads = job.config.torch_threads
    if threads is None:
        return 1 + (cores - 1) + (cores - 1)
    return 1 + (cores - 1) + 2 * (threads - 1)


def stack_bytes(threads: int) -> int:
    """Stacks that are touched; 8 MiB each is reserved, and is not RAM."""
    return threads * _STACK_BYTES
