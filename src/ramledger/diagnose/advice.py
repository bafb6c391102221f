"""What to change, from one statement's measured numbers: each rule names a row it can reduce.

A rule returns at most one Advice with the bytes it would save, each for that change alone; a rule
that knows no saving stays silent. What is worth knowing without a saving is in `remarks`.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import prod
from typing import Any

from ramledger.diagnose import replay_advice
from ramledger.diagnose.own_replay import own_replays
from ramledger.ledger import Entry, LargeObject, Source, Statement, is_below
from ramledger.units import MIB, format_bytes

WORTH_BYTES = 8 * MIB
WORTH_FRACTION = 0.02

TRIM = "ctypes.CDLL('libc.so.6').malloc_trim(0)"

# measured with stable-baselines3 2.9: a worker that imports torch by itself has
# 151 MiB of its own, one that shares the imports of its forkserver or parent 6 to 7
WORKER_OWN_BYTES = 7 * MIB
WORKER_TORCH_BYTES = 150 * MIB
_LARGE_WORKER_BYTES = 64 * MIB

_BUFFERS = ("replay", "rollout")
_TWINS = {
    "next_observations": "observations",
    "next_observation": "observation",
    "next_obs": "obs",
    "next_states": "states",
    "next_state": "state",
}
# what training seldom needs, and what stable-baselines3 imports whenever it is installed
_OPTIONAL_IMPORTS = ("matplotlib", "pandas", "tensorboard", "tensorflow")
_MANY_ARENAS = 8


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change. `at_most`: the saving is a bound, since only the user knows the need."""

    title: str
    why: str
    do: tuple[str, ...]
    saves_bytes: int
    at_most: bool = False
    apply: str = ""  # the remedy of `run --apply` that does it, without a change to the script

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"do": list(self.do), "apply": self.apply or None}


def remedy_command(apply: str, command: str) -> str:
    """What to start for a remedy: that command again, where it can be started as it is written.

    >>> remedy_command("replay", "python train.py --seed 1")
    'ramledger run --apply replay -- python train.py --seed 1'
    """
    is_startable = bool(command) and not command.startswith("[") and "::" not in command
    is_worker = any(f"multiprocessing.{how}" in command for how in ("forkserver", "spawn"))
    again = command if is_startable and not is_worker else "<the same command>"
    return f"ramledger run --apply {apply} -- {again}"


Rule = Callable[[Statement], Advice | None]


def advise(statement: Statement, more: Sequence[Advice] = (), top: int = 3) -> list[Advice]:
    """The largest reducible rows of a statement, and `more`, most bytes first."""
    worth = worth_bytes(statement)
    found = [advice for rule in _RULES if (advice := rule(statement)) is not None] + [*more]
    found = [advice for advice in found if advice.saves_bytes >= worth]
    found.sort(key=lambda advice: (-advice.saves_bytes, advice.title))
    return found[:top]


def worth_bytes(statement: Statement) -> int:
    """What is too little to bother the user with."""
    return max(WORTH_BYTES, int(statement.rss_bytes * WORTH_FRACTION))


# ---- the allocator -----------------------------------------------------------------------------


def allocator_free(statement: Statement) -> Advice | None:
    """Freed blocks that glibc keeps; malloc_trim gives whole pages of them back."""
    entry = statement.get("allocator/free")
    if entry is None:
        return None
    settings = statement.facts.get("settings") or {}
    do = [f"where memory should be low, such as after a training phase: {TRIM}"]
    if not {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"} & settings.keys():
        do.append(
            "or start it with MALLOC_MMAP_THRESHOLD_=1048576: blocks of 1 MiB and more then go "
            "back when they are freed, and updates take longer"
        )
    why = f"malloc holds {format_bytes(entry.resident_bytes)} that the program has already freed"
    arenas, in_threads = _thread_arenas(statement)
    if arenas >= _MANY_ARENAS and in_threads >= WORTH_BYTES and "MALLOC_ARENA_MAX" not in settings:
        why += (
            f"; {statement.threads} threads made {arenas} arenas, and {format_bytes(in_threads)} "
            "lie free in those of threads, where no other thread's allocation finds them"
        )
        do.append(
            "or start it with MALLOC_ARENA_MAX=2 and compare: it bounds the peak of threads that "
            "take turns, but can raise what is held"
        )
    return Advice("give freed memory back", why, tuple(do), entry.resident_bytes, apply="malloc")


def _thread_arenas(statement: Statement) -> tuple[int, int]:
    """(arenas, free bytes in all but the main one) as malloc says."""
    malloc = statement.facts.get("malloc") or {}
    free = {a["index"]: a["free_bytes"] for a in malloc.get("largest_arenas", ())}
    in_threads = malloc.get("free_bytes", 0) - free[0] if 0 in free else sum(free.values())
    return malloc.get("arenas", 0), in_threads


# ---- buffers and arrays ------------------------------------------------------------------------


def repeated_observations(statement: Statement) -> Advice | None:
    """A replay buffer that stores each observation a second time, as the next one."""
    twin = _repeated(statement)
    if twin is None:
        return None
    filled = ""
    if twin.reserved_bytes > twin.resident_bytes + MIB:
        filled = f", {format_bytes(twin.reserved_bytes)} once it is full"
    return Advice(
        "store each observation once",
        f"{twin.account} repeats the observations one row later: "
        f"{format_bytes(twin.resident_bytes)} now{filled}",
        (
            "stable-baselines3: optimize_memory_usage=True, replay_buffer_kwargs="
            "{'handle_timeout_termination': False}; episodes cut by a time limit then count as "
            "ended, and Dict observations are not supported",
            "your own buffer: keep one array and read row i + 1 as the next observation",
        ),
        twin.resident_bytes,
        apply="replay" if _has_stable_baselines3(statement) else "",
    )


def own_buffer(statement: Statement) -> Advice | None:
    """A replay buffer that the user has written: what it stores more than once."""
    found = [(replay_advice.saves_bytes(one), one) for one in own_replays(statement)]
    if not found:
        return None
    saves, replay = max(found, key=lambda pair: pair[0])
    if not saves:
        return None
    full = ""
    if replay.capacity and replay.length < replay.capacity:
        at_end = format_bytes(saves * replay.capacity // replay.length)
        full = f"; once it is full, {at_end} can be saved"
    return Advice(
        replay_advice.title(replay),
        replay_advice.why(replay) + full,
        replay_advice.lines(replay, statement),
        saves,
    )


def _has_stable_baselines3(statement: Statement) -> bool:
    """Whether stable-baselines3 is loaded, whose buffers can be exchanged as they are made."""
    return statement.get("imports/stable_baselines3") is not None


def _repeated(statement: Statement) -> Entry | None:
    by_account = {entry.account: entry for entry in statement.entries}
    for entry in statement.entries:
        parent, _, name = entry.account.rpartition("/")
        twin = by_account.get(f"{parent}/{_TWINS.get(name, '')}")
        if twin is not None and twin.reserved_bytes == entry.reserved_bytes:
            return entry
    return None


def wide_floats(statement: Statement) -> Advice | None:
    """Large float64 arrays: half of their bytes is precision that float32 networks drop."""
    own = {account for one in own_replays(statement) for account in one.rows}  # see own_buffer
    wide = [
        item
        for item in statement.large_objects
        if item.dtype == "float64" and item.account not in own
    ]
    if not wide:
        return None
    total = sum(item.resident_bytes for item in wide)
    return Advice(
        "float32 instead of float64",
        f"{format_bytes(total)} are float64, and networks compute in float32: {_paths(wide)}",
        ("create them with dtype=np.float32, unless their own arithmetic needs the precision",),
        total // 2,
    )


def float_images(statement: Statement) -> Advice | None:
    """Pixels that a buffer keeps as float32."""
    images = [
        item
        for item in statement.large_objects
        if item.dtype == "float32" and _is_in_buffer(item) and _looks_like_images(item.shape)
    ]
    if not images:
        return None
    total = sum(item.resident_bytes for item in images)
    return Advice(
        "store pixels as uint8",
        f"{format_bytes(total)} of images are float32, four bytes a value: {_paths(images)}",
        (
            "give the environment an observation space of np.uint8 and scale in the network; "
            "stable-baselines3 keeps uint8 in rollouts from 2.7.1 on",
        ),
        total * 3 // 4,
    )


def small_views(statement: Statement) -> Advice | None:
    """A view keeps the whole array alive that it was cut from."""
    views = [item for item in statement.large_objects if _is_small_view(item)]
    if not views:
        return None
    total = sum(item.resident_bytes - _seen_bytes(item) for item in views)
    return Advice(
        "copy small pieces of large arrays",
        f"a view keeps its whole array alive, here {format_bytes(total)} more than it shows: "
        f"{_paths(views)}",
        ("x = array[rows].copy(), torch: .clone(), unless the whole array is needed elsewhere",),
        max(0, total),
        at_most=True,
    )


def _is_small_view(item: LargeObject) -> bool:
    seen = _seen_bytes(item)
    return is_below(item.account, "variables") and 0 < seen * 4 < item.reserved_bytes


def _seen_bytes(item: LargeObject) -> int:
    return prod(item.shape) * _ITEM_BYTES.get(item.dtype, 0)


_ITEM_BYTES = {
    "bool": 1,
    **{f"{kind}{bits}": bits // 8 for kind, bits in product(("int", "uint"), (8, 16, 32, 64))},
    **{f"float{bits}": bits // 8 for bits in (16, 32, 64)},
    "bfloat16": 2,
}


def endless_containers(statement: Statement) -> Advice | None:
    """Long containers of the program's own for which nobody states a capacity."""
    found: Sequence[Mapping[str, Any]] = statement.facts.get("containers") or ()
    long = [c for c in found if not c.get("capacity") and _is_log(c)]
    if not long:
        return None
    names = ", ".join(
        f"{c['path']} ({c['length']:,} × {c['of'].rpartition('.')[2]}, {format_bytes(c['bytes'])})"
        for c in long[:3]
    )
    return Advice(
        "bound what only grows",
        f"nothing limits how long these become: {names}",
        ("collections.deque(maxlen=N) for a history, running sums for statistics, a log file",),
        sum(c["bytes"] for c in long),
        at_most=True,
    )


def _is_log(container: Mapping[str, Any]) -> bool:
    """Whether it is large, can grow, and is no buffer that has an account of its own."""
    is_buffer = any(is_below(container.get("account", ""), name) for name in _BUFFERS)
    is_fixed = container["type"] in ("tuple", "frozenset")
    return container["bytes"] >= WORTH_BYTES and not is_buffer and not is_fixed


# ---- networks, imports, workers ----------------------------------------------------------------


def kept_gradients(statement: Statement) -> Advice | None:
    """Gradients are needed during an update only; between updates they are as large as the nets."""
    entry = statement.get("gradients")
    if entry is None:
        return None
    return Advice(
        "drop gradients between updates",
        f"{format_bytes(entry.resident_bytes)} of gradients stay after the update; dropping them "
        "helps where agents take turns or workers collect, and leaves the peak of one update as is",
        (f"at the end of an update: optimizer.zero_grad(set_to_none=True), then {TRIM}",),
        entry.resident_bytes,
    )


def optional_imports(statement: Statement) -> Advice | None:
    """Packages that come along although the training does not need them."""
    found = [
        entry
        for name in _OPTIONAL_IMPORTS
        if (entry := statement.get(f"imports/{name}")) and not _is_used(name, statement)
    ]
    if not found:
        return None
    names = ", ".join(
        f"{e.account.removeprefix('imports/')} {format_bytes(e.resident_bytes)}" for e in found
    )
    is_measured = all(e.source is Source.IMPORT for e in found)
    how = "measured while they were imported" if is_measured else "as another process shows"
    do = "import them in the function that needs them"
    if _has_stable_baselines3(statement):
        do += (
            "; stable-baselines3 imports pandas, matplotlib and tensorboard whenever they are "
            "installed"
        )
    return Advice(
        "import less",
        f"{how}: {names}",
        (do,),
        sum(e.resident_bytes for e in found),
    )


def _is_used(package: str, statement: Statement) -> bool:
    """TensorFlow computes for Keras, and where it has graphs of its own."""
    if package != "tensorflow":
        return False
    return any(statement.get(name) for name in ("imports/keras", "tensorflow/graphs"))


def worker_imports(statement: Statement) -> Advice | None:
    """Workers started by spawn or forkserver import torch again, each for itself."""
    workers = [child for child in statement.children if _imports_by_itself(child)]
    if len(workers) < 2:
        return None
    shareable = sorted(map(_imported_bytes, workers))
    # the forkserver keeps one copy, from which the workers are forked
    saves = sum(shareable[:-1]) - WORKER_OWN_BYTES
    own = sum(child.uss_bytes for child in workers)
    return Advice(
        "let workers share their imports",
        f"{len(workers)} workers have {format_bytes(own)} of their own, and each has imported "
        "torch for itself",
        (
            "before the environments are made: multiprocessing.set_forkserver_preload"
            "(['torch', 'stable_baselines3']); workers must start by forkserver, which is the "
            "default of SubprocVecEnv",
            "or SubprocVecEnv(..., start_method='fork'), before anything has started threads",
        ),
        saves,
        apply=""
        if any("multiprocessing.spawn" in child.command for child in workers)
        else "workers",
    )


def _imports_by_itself(child: Statement) -> bool:
    is_started_anew = any(f"multiprocessing.{how}" in child.command for how in _STARTED_ANEW)
    has_torch = child.get("libraries/torch") is not None
    return is_started_anew and has_torch and child.uss_bytes > _LARGE_WORKER_BYTES


_STARTED_ANEW = ("forkserver", "spawn")


def _imported_bytes(child: Statement) -> int:
    """What a worker would share: its measured imports, or what they cost where we measured."""
    imported = child.total("imports") or WORKER_TORCH_BYTES
    return min(imported, child.uss_bytes) - WORKER_OWN_BYTES


def worker_data(statement: Statement) -> Advice | None:
    """The same large array in several workers, each with a copy of its own."""
    copies: dict[tuple[str, str, tuple[int, ...]], list[int]] = defaultdict(list)
    for child in statement.children:
        for item in child.large_objects:
            private = min(item.resident_bytes, child.uss_bytes)
            copies[item.path, item.dtype, item.shape].append(private)
    repeated = {key: found for key, found in copies.items() if len(found) > 1}
    if not repeated:
        return None
    saves = sum(sum(found) - max(found) for found in repeated.values())
    path, count = max(((key[0], len(found)) for key, found in repeated.items()), key=lambda p: p[1])
    return Advice(
        "share data between workers",
        f"{count} workers hold an array of the same place and shape: {path}",
        (
            "np.load(file, mmap_mode='r') in each worker, or multiprocessing.shared_memory: one "
            "copy for all, where workers only read",
        ),
        saves,
        at_most=True,
    )


def _is_in_buffer(item: LargeObject) -> bool:
    return any(is_below(item.account, name) for name in _BUFFERS)


def _looks_like_images(shape: tuple[int, ...]) -> bool:
    """(rows, …, height, width, …): two sides beyond the rows have 32 pixels or more."""
    sides = [length for length in shape[1:] if length >= 32]
    return len(shape) >= 3 and len(sides) >= 2


def _paths(objects: Sequence[LargeObject]) -> str:
    names = [f"{o.path} ({format_bytes(o.resident_bytes)})" for o in objects[:3]]
    more = f" and {len(objects) - 3} more" if len(objects) > 3 else ""
    return ", ".join(names) + more


_RULES: tuple[Rule, ...] = (
    allocator_free,
    repeated_observations,
    own_buffer,
    wide_floats,
    float_images,
    small_views,
    endless_containers,
    kept_gradients,
    optional_imports,
    worker_imports,
    worker_data,
)
