"""Why the RAM is where it is and what to change, from one statement's measured numbers.

Each rule reads accounts and returns at most one Advice with the bytes it would save. A rule that
cannot state a measured saving stays silent or says so; folklore is answered, not repeated.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ramledger.ledger import LargeObject, Statement, is_below
from ramledger.units import MIB, format_bytes

WORTH_BYTES = 8 * MIB
WORTH_FRACTION = 0.02
_BUFFERS = ("replay", "rollout")


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change. `saves_bytes` is what this statement lets expect, 0 if unknown."""

    title: str
    why: str
    do: str
    saves_bytes: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Rule = Callable[[Statement], Advice | None]


def advise(statement: Statement, top: int = 3) -> list[Advice]:
    """The largest reducible rows of a statement, most bytes first."""
    worth = max(WORTH_BYTES, int(statement.rss_bytes * WORTH_FRACTION))
    found = [advice for rule in _RULES if (advice := rule(statement)) is not None]
    found = [advice for advice in found if advice.saves_bytes >= worth]
    found.sort(key=lambda advice: -advice.saves_bytes)
    return found[:top]


def explain_threads(statement: Statement) -> str:
    """The most repeated false belief, answered with this process's own numbers."""
    stacks = statement.facts.get("thread_stacks") or {}
    reserved, resident = stacks.get("reserved_bytes", 0), stacks.get("resident_bytes", 0)
    if stacks.get("count", 0) < 8 or not reserved:
        return ""
    return (
        f"{stacks['count']} thread stacks reserve {format_bytes(reserved)} of address space but "
        f"hold {format_bytes(resident)} of RAM: fewer threads will not save memory by their stacks"
    )


def allocator_free(statement: Statement) -> Advice | None:
    entry = statement.get("allocator/free")
    if entry is None:
        return None
    arenas = (statement.facts.get("malloc") or {}).get("arenas", 1)
    settings = statement.facts.get("settings") or {}
    do = "call malloc_trim(0) after each update: ctypes.CDLL('libc.so.6').malloc_trim(0)"
    if "MALLOC_MMAP_THRESHOLD_" not in settings:
        do += "; or start with MALLOC_MMAP_THRESHOLD_=1048576, so large blocks go back at once"
    if arenas > 8 and "MALLOC_ARENA_MAX" not in settings:
        do += f"; {arenas} arenas share it, MALLOC_ARENA_MAX=2 may help: measure, it can also cost"
    return Advice(
        "give freed memory back to the system",
        f"malloc holds {format_bytes(entry.resident_bytes)} that the program has already freed",
        do,
        entry.resident_bytes,
    )


def thread_arenas(statement: Statement) -> Advice | None:
    """From outside only: arenas of threads hold memory, their books can't be read."""
    entry = statement.get("heap/thread arenas")
    arenas = statement.facts.get("thread_arenas", 0)
    settings = statement.facts.get("settings") or {}
    if statement.inside or entry is None or arenas < 8 or "MALLOC_ARENA_MAX" in settings:
        return None
    return Advice(
        "fewer malloc arenas",
        f"{statement.threads} threads made {arenas} malloc arenas, which hold "
        f"{format_bytes(entry.resident_bytes)}; how much of it is free is seen with --inside",
        "start with MALLOC_ARENA_MAX=2 and compare: it bounds per-thread free lists",
        entry.resident_bytes // 2,
    )


def duplicate_next_observations(statement: Statement) -> Advice | None:
    entry = statement.get("replay/next_observations")
    twin = statement.get("replay/observations")
    if entry is None or twin is None or entry.reserved_bytes != twin.reserved_bytes:
        return None
    return Advice(
        "store each observation once",
        "next_observations repeats observations shifted by one row "
        f"({format_bytes(entry.resident_bytes)} now, {format_bytes(entry.reserved_bytes)} filled)",
        "stable-baselines3: optimize_memory_usage=True with "
        "replay_buffer_kwargs={'handle_timeout_termination': False}",
        entry.resident_bytes,
    )


def wide_floats(statement: Statement) -> Advice | None:
    wide = [o for o in statement.large_objects if o.dtype == "float64"]
    saves = sum(o.resident_bytes for o in wide) // 2
    if not wide:
        return None
    return Advice(
        "float32 instead of float64",
        f"{_paths(wide)}: float64 takes twice the bytes a network will read",
        "create them with dtype=np.float32",
        saves,
    )


def float_images(statement: Statement) -> Advice | None:
    images = [
        o
        for o in statement.large_objects
        if o.dtype == "float32" and _is_buffer(o) and _looks_like_images(o.shape)
    ]
    if not images:
        return None
    return Advice(
        "store pixels as uint8",
        f"{_paths(images)}: images kept as float32 take four times their bytes",
        "keep frames as uint8 and scale them in the network (stable-baselines3 ≥ 2.7.1 does)",
        sum(o.resident_bytes for o in images) * 3 // 4,
    )


def gradients_at_rest(statement: Statement) -> Advice | None:
    entry = statement.get("gradients")
    if entry is None:
        return None
    return Advice(
        "drop gradients between updates",
        f"{format_bytes(entry.resident_bytes)} of gradients are kept after the update",
        "optimizer.zero_grad(set_to_none=True) at the end of the update, not before the next",
        entry.resident_bytes,
    )


def worker_copies(statement: Statement) -> Advice | None:
    workers = [
        child
        for child in statement.children
        if child.facts.get("kind") == "python" and child.uss_bytes > 64 * MIB
    ]
    if len(workers) < 2:
        return None
    private = sum(child.uss_bytes for child in workers)
    # a forked or preloaded worker keeps 4-7 MiB of its own, measured with stable-baselines3
    saves = private - len(workers) * 7 * MIB
    return Advice(
        "let workers share what they import",
        f"{len(workers)} worker processes hold {format_bytes(private)} of their own: each "
        "imports the frameworks again",
        "SubprocVecEnv(..., start_method='fork') before any threads start, or "
        "multiprocessing.set_forkserver_preload(['torch', ...])",
        saves,
    )


def kept_graphs(statement: Statement) -> Advice | None:
    count = statement.facts.get("tensors_with_graph", 0)
    if count < 1000:
        return None
    native = statement.get("native/in use")
    return Advice(
        "let autograd graphs go",
        f"{count} live tensors still carry a grad_fn, and each keeps its whole graph",
        "store numbers, not tensors: loss.item() or tensor.detach()",
        native.resident_bytes if native else 0,
    )


def _is_buffer(item: LargeObject) -> bool:
    return any(is_below(item.account, name) for name in _BUFFERS)


def _looks_like_images(shape: tuple[int, ...]) -> bool:
    sides = [n for n in shape[1:] if n >= 32]
    return len(shape) >= 3 and len(sides) >= 2


def _paths(objects: list[LargeObject]) -> str:
    names = [o.path for o in objects[:3]]
    more = f" and {len(objects) - 3} more" if len(objects) > 3 else ""
    return ", ".join(names) + more


_RULES: tuple[Rule, ...] = (
    allocator_free,
    thread_arenas,
    duplicate_next_observations,
    wide_floats,
    float_images,
    gradients_at_rest,
    worker_copies,
    kept_graphs,
)
