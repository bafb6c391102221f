"""Why memory leaks and what holds it: evidence from deep snapshots, most telling first."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from ramledger.diagnose.containers import container_by_name, growing_container
from ramledger.diagnose.explanation import Explanation
from ramledger.diagnose.filling import Filling
from ramledger.diagnose.finding import Cause, Culprit
from ramledger.diagnose.leak_evidence import (
    Case,
    array_type,
    build_case,
    build_case_by_names,
    graphs_in_containers,
    grown_classes,
    growth_lines,
    kind_of_array,
    path_in,
    tensor_path,
)
from ramledger.diagnose.pinned_objects import are_small_views, pinned_by, pinned_views
from ramledger.diagnose.tf_retracing import traced_leak
from ramledger.run.timeline import Timeline
from ramledger.units import MIB, format_bytes, format_delta

_NATIVE = ("native/in use", "unexplained", "arrays/no owner found")
_LEAST_GRAPHS, _GRAPHS_A_GENERATION = 3, 0.7  # a look may fall into the middle of a generation
_FROZEN_A_GENERATION = 20
_GUESS = 0.5  # confidence
_DEEPER = 10  # operations
_LEAST_NATIVE = 256 * 1024  # bytes of native memory that an object may well hold


def explain_leak(timeline: Timeline, fillings: Sequence[Filling]) -> Explanation:
    """The first rule that its evidence supports."""
    found = _explained(timeline, fillings)
    if found.cause is not Cause.UNKNOWN and found.confidence > _GUESS:
        return found
    by_name = build_case_by_names(timeline, fillings)
    return (container_by_name(by_name) if by_name is not None else None) or found


def _explained(timeline: Timeline, fillings: Sequence[Filling]) -> Explanation:
    case = build_case(timeline, fillings)
    if case is None:
        return _from_books(timeline)
    for rule in _RULES if case.is_covered else _TELLING_RULES:
        found = rule(case)
        if found is not None:
            return found
    if not case.is_covered:
        return _from_books(timeline)
    return Explanation(Cause.UNKNOWN, evidence=tuple(growth_lines(case)))


# ---- rules ---------------------------------------------------------------------------------------


def _graph(case: Case) -> Explanation | None:
    grown = case.late.tensors_with_graph - case.early.tensors_with_graph
    if grown < max(_LEAST_GRAPHS, _GRAPHS_A_GENERATION * case.generations):
        return _history(case)
    owned = sum(growth for _, growth in case.owners()) / case.total
    if owned > 0.5 and not graphs_in_containers(case) and grown_classes(case):
        return None  # whole models stay alive, with what tensors they have
    path = tensor_path(case)
    held = f" held by {path}" if path else ""
    return Explanation(
        Cause.GRAPH_RETENTION,
        Culprit("torch.Tensor", path),
        (
            f"tensors that carry a grad_fn: {case.early.tensors_with_graph} -> "
            f"{case.late.tensors_with_graph}",
            *growth_lines(case),
        ),
        f"tensors{held} keep their autograd graphs: store loss.item() or tensor.detach()",
        0.9,
    )


def _history(case: Case) -> Explanation | None:
    """As many tensors as before, but what they were made of goes back ever farther."""
    seen = [look.graph_depth for look in case.looks if look.graph_depth]
    deeper = len(seen) >= 2 and seen[-1] >= max(2 * seen[0], seen[0] + _DEEPER)
    if not deeper or any(b < a for a, b in pairwise(seen)):
        return None
    path = tensor_path(case)
    return Explanation(
        Cause.GRAPH_RETENTION,
        Culprit("torch.Tensor", path),
        (f"operations that a tensor's graph goes back: {seen[0]} -> {seen[-1]}",
         *growth_lines(case)),
        "a tensor is handed from generation to generation with its autograd graph: detach() it "
        "where it is handed on, as with the hidden state of a recurrent network",
        0.85,
    )  # fmt: skip


def _gc_off(case: Case) -> Explanation | None:
    is_off = not (case.early.collects and case.late.collects)
    grown = grown_classes(case)
    frozen = case.late.frozen - case.early.frozen
    if frozen >= _FROZEN_A_GENERATION * case.generations:
        return _frozen_explanation(case)
    unreached = [a for a, _ in case.owners() if a.startswith("variables/<")]
    freed, collected = _given_back(case.timeline)
    in_cycles = freed >= case.total // 2 and collected >= sum(row[2] - row[1] for row in grown[:1])
    if is_off:
        applies = bool(unreached or grown) or freed >= case.total // 3
    else:  # on in name, but its thresholds are out of reach
        applies = bool(unreached and grown) and in_cycles
    if not applies:
        return None
    state = (
        "the garbage collector is off: gc.disable(), or a threshold that is never reached"
        if is_off
        else "the garbage collector is on but does not run"
    )
    return Explanation(
        Cause.GC_OFF,
        Culprit(
            grown[0][0] if grown else "",
            unreached[0].removeprefix("variables/") if unreached else "",
        ),
        (
            state,
            *(f"live {name}: {before} -> {after}" for name, before, after in grown[:3]),
            *([f"gc.collect() and malloc_trim(0) at the end gave {format_bytes(freed)} back"]
              if freed > MIB else []),
        ),
        "cyclic garbage is never collected: gc.enable() with its usual gc.set_threshold(), or "
        "gc.collect() once a generation; break the reference cycle with weakref",
        0.9 if is_off else 0.75,
    )  # fmt: skip


def _frozen_explanation(case: Case) -> Explanation:
    return Explanation(
        Cause.GC_OFF,
        Culprit("frozen objects"),
        (f"objects frozen by gc.freeze(): {case.early.frozen} -> {case.late.frozen}",
         *growth_lines(case)),
        "gc.freeze() hides what is alive from the collector for good, and more of it in every "
        "generation: freeze once, before the loop, or call gc.unfreeze() and gc.collect() first",
        0.8,
    )  # fmt: skip


def _given_back(timeline: Timeline) -> tuple[int, int]:
    """(bytes, objects) that a collection and a trim at the end freed."""
    probe = timeline.probe or {}
    freed = int(probe.get("anon_bytes") or 0) - int(probe.get("after_trim_bytes") or 0)
    return freed, int(probe.get("collected_objects") or 0)


def _pinned(case: Case) -> Explanation | None:
    grown = grown_classes(case)
    owners = case.owners()
    owned = sum(growth for _, growth in owners)
    if not grown or owned < 0.3 * case.total:
        return None
    account = owners[0][0]
    return pinned_by(case, grown[0], path_in(case, account))


def _pinned_native(case: Case) -> Explanation | None:
    """Native memory that comes with objects whose number grows: figures, renderers, handles."""
    native = sum(max(0, case.growth.get(name, 0)) for name in _NATIVE)
    grown = [row for row in grown_classes(case) if native >= _LEAST_NATIVE * (row[2] - row[1])]
    if native < 0.5 * case.total or not grown:
        return None
    return pinned_by(case, grown[0], "")


def _held(case: Case) -> Explanation | None:
    owners = case.owners()
    if not owners or owners[0][1] < 0.3 * case.total:
        return None
    account = owners[0][0]
    path = path_in(case, account)
    if are_small_views(case, account):
        return pinned_views(case, account, path)
    large = [o for o in case.late.large_objects if o.get("account") == account]
    kind = str(large[0].get("type")) if large else array_type(case)
    return Explanation(
        Cause.UNBOUNDED_CONTAINER,
        Culprit(kind, path),
        tuple(growth_lines(case)),
        f"{path} only grows: bound it or clear it every generation",
        0.7,
    )


def _allocator(case: Case) -> Explanation | None:
    if case.share("allocator/free", "python/free") < 0.5:
        return None
    if case.share("python/free") > case.share("allocator/free"):
        return _arenas_explanation(growth_lines(case))
    return _allocator_explanation(growth_lines(case), case.timeline)


def _arenas_explanation(lines: list[str]) -> Explanation:
    return Explanation(
        Cause.ALLOCATOR_RETENTION,
        Culprit("Python arenas", "python/free"),
        tuple(lines),
        "small Python objects that stay hold the arenas of many that are gone, and malloc_trim "
        "does not reach those: keep what stays in arrays (numpy, array.array) instead of small "
        "objects, or make it apart from what does not stay",
        0.8,
    )


def _allocator_explanation(lines: list[str], timeline: Timeline) -> Explanation:
    probe = timeline.probe or {}
    trimmed = int(probe.get("after_collect_bytes") or 0) - int(probe.get("after_trim_bytes") or 0)
    if trimmed > MIB:
        lines.append(f"malloc_trim(0) at the end gave {format_bytes(trimmed)} back")
    return Explanation(
        Cause.ALLOCATOR_RETENTION,
        Culprit("malloc", "allocator/free"),
        tuple(lines),
        "malloc keeps freed memory between small survivors: call malloc_trim(0) once a generation "
        "(ctypes.CDLL('libc.so.6').malloc_trim(0)), or start with MALLOC_MMAP_THRESHOLD_=65536"
        + _shapes_advice(timeline),
        0.85,
    )


def _shapes_advice(timeline: Timeline) -> str:
    """Why torch may grow on a CPU: https://github.com/pytorch/pytorch/issues/32037."""
    if "torch" not in timeline.versions:
        return ""
    return (
        "; if tensors of ever new shapes pass through the network, oneDNN keeps kernels for each: "
        "pad them to a few sizes, or start with ONEDNN_PRIMITIVE_CACHE_CAPACITY=64"
    )


def _native(case: Case) -> Explanation | None:
    if case.share(*_NATIVE) < 0.5:
        return None
    return Explanation(
        Cause.NATIVE_LEAK,
        Culprit("native memory", ""),
        (
            *growth_lines(case),
            "no Python object, array or tensor accounts for it",
        ),
        "a native library does not free what it allocates: run the environment alone to see "
        "whether it is the one, and restart its process now and then until it is fixed"
        + _shapes_advice(case.timeline),
        0.8,
    )


def _traced(case: Case) -> Explanation | None:
    found = traced_leak(case)
    return Explanation(Cause.GRAPH_RETENTION, *found) if found else None


_RULES: tuple[Callable[[Case], Explanation | None], ...] = (
    _traced,
    _graph,
    _gc_off,
    growing_container,
    _pinned,
    _held,
    _allocator,
    _pinned_native,
    _native,
)

# what tells even where looks were few and early: counts, not shares of the growth
_TELLING_RULES = (_traced, _graph, _gc_off, growing_container, _pinned, _pinned_native)


# ---- without deep looks -----------------------------------------------------------------------


def _from_books(timeline: Timeline) -> Explanation:
    """What the allocators' own books tell when the run was too short for deep looks."""
    kept = [p for p in timeline.points if p.malloc_in_use is not None]
    if len(kept) < 2:
        return Explanation(Cause.UNKNOWN, evidence=("no deep snapshots to compare",))
    first, last = kept[len(kept) // 4], kept[-1]
    in_use = (last.malloc_in_use or 0) - (first.malloc_in_use or 0)
    free = (last.malloc_free or 0) - (first.malloc_free or 0)
    python = (last.python_used or 0) - (first.python_used or 0)
    evidence = (
        f"malloc in use {format_delta(in_use)}, malloc free {format_delta(free)}, "
        f"Python objects {format_delta(python)} since generation {first.generation}",
        "too few deep snapshots to name what holds it: a longer run would",
    )
    total = max(1, last.anon - first.anon)
    if free >= 0.6 * total:
        return _allocator_explanation(list(evidence), timeline)
    if python >= 0.5 * total:
        return Explanation(
            Cause.UNBOUNDED_CONTAINER, Culprit("Python objects"), evidence, _LOOK_LONGER, 0.5
        )
    left = (timeline.last_books or {}).get("malloc_in_use_bytes")
    if in_use >= 0.5 * total and isinstance(left, int):
        released = (last.malloc_in_use or 0) - left
        line = f"malloc in use fell by {format_bytes(max(0, released))} when the program ended"
        if released >= 0.5 * in_use:
            return Explanation(
                Cause.UNBOUNDED_CONTAINER, Culprit(kind_of_array(timeline)), (*evidence, line),
                _LOOK_LONGER, 0.4,
            )  # fmt: skip
        return Explanation(Cause.UNKNOWN, evidence=(*evidence, line), advice=_LOOK_LONGER)
    return Explanation(Cause.UNKNOWN, evidence=evidence, advice=_LOOK_LONGER)


_LOOK_LONGER = "run more generations, or with `ramledger run --budget 0.1`, to see what holds it"
