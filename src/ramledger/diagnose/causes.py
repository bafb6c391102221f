"""Why memory leaks and what holds it: rules over snapshots, the surest first."""

from collections.abc import Callable
from itertools import pairwise

from ramledger.diagnose import thresholds
from ramledger.diagnose.containers import container_by_name, growing_container, holds_most
from ramledger.diagnose.finding import Cause, Culprit, Explanation
from ramledger.diagnose.growth_table import GrowthTable
from ramledger.diagnose.leak_evidence import (
    LeakEvidence,
    array_type,
    collect_evidence,
    evidence_by_names,
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

_NATIVE = ("native/in use", "unexplained")


def explain_leak(table: GrowthTable, onset: float) -> Explanation:
    """The first rule that its evidence supports."""
    found = _explained(table, onset)
    if found.cause is not Cause.UNKNOWN and not found.is_guess:
        return found
    by_name = evidence_by_names(table)
    return (container_by_name(by_name) if by_name is not None else None) or found


def _explained(table: GrowthTable, onset: float) -> Explanation:
    timeline, evidence = table.timeline, collect_evidence(table, onset)
    if evidence is None:
        return _from_allocators(timeline)
    for rule in _RULES if evidence.is_covered else _RULES_BY_COUNT:
        found = rule(evidence)
        if found is not None:
            return found
    if not evidence.is_covered:
        return _from_allocators(timeline)
    return Explanation(Cause.UNKNOWN, evidence=tuple(growth_lines(evidence)))


# ---- rules ---------------------------------------------------------------------------------------


def _graph(evidence: LeakEvidence) -> Explanation | None:
    grown = evidence.late.tensors_with_graph - evidence.early.tensors_with_graph
    is_many = grown >= max(
        thresholds.LEAST_COUNTED, thresholds.EVERY_ITERATION * evidence.generations
    )
    rises = evidence.rise_of(lambda one: one.tensors_with_graph)
    if not is_many or rises is False:
        return _history(evidence)
    frames = [row for row in grown_classes(evidence) if row[0] in evidence.late.frame_holders]
    is_plainer = bool(frames) or holds_most(evidence)
    if rises is None and is_plainer and not graphs_in_containers(evidence):
        return None  # a snapshot within an update sees its graphs
    owned = sum(growth for _, growth in evidence.owners()) / evidence.total
    if owned > thresholds.MOST and not graphs_in_containers(evidence) and grown_classes(evidence):
        return None  # whole models stay alive, with what tensors they have
    path = tensor_path(evidence)
    held = f" held by {path}" if path else ""
    return Explanation(
        Cause.GRAPH_RETENTION,
        Culprit("torch.Tensor", path),
        (
            f"tensors that carry a grad_fn: {evidence.early.tensors_with_graph} -> "
            f"{evidence.late.tensors_with_graph}",
            *growth_lines(evidence),
        ),
        f"tensors{held} keep their autograd graphs: store loss.item() or tensor.detach()",
    )


def _history(evidence: LeakEvidence) -> Explanation | None:
    """As many tensors as before, but each graph goes back farther than the one before."""
    seen = [snapshot.graph_depth for snapshot in evidence.snapshots if snapshot.graph_depth]
    first, last = (seen[0], seen[-1]) if seen else (0, 0)
    deeper = last >= max(thresholds.DEEPER * first, first + thresholds.DEEPER_OPERATIONS)
    if not deeper or any(b < a for a, b in pairwise(seen)):
        return None
    path = tensor_path(evidence)
    return Explanation(
        Cause.GRAPH_RETENTION,
        Culprit("torch.Tensor", path),
        (f"operations in the autograd graph of a tensor: {first} -> {last}",
         *growth_lines(evidence)),
        "a tensor carries its autograd graph from one iteration to the next: detach() it between "
        "iterations, as with the hidden state of a recurrent network",
    )  # fmt: skip


def _gc_off(evidence: LeakEvidence) -> Explanation | None:
    is_off = not (evidence.early.collects and evidence.late.collects)
    grown = grown_classes(evidence)
    frozen = evidence.late.gc_frozen_objects - evidence.early.gc_frozen_objects
    if frozen >= thresholds.MANY * evidence.generations:
        return _frozen_explanation(evidence)
    unreached = [a for a, _ in evidence.owners() if a.startswith("variables/<")]
    freed, collected = _given_back(evidence.timeline)
    in_cycles = freed >= thresholds.MOST * evidence.total and collected >= sum(
        row[2] - row[1] for row in grown[:1]
    )
    if is_off:
        applies = bool(unreached or grown) or freed >= thresholds.GOOD_PART * evidence.total
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
        "gc.collect() once an iteration; break the reference cycle with weakref",
    )  # fmt: skip


def _frozen_explanation(evidence: LeakEvidence) -> Explanation:
    return Explanation(
        Cause.GC_OFF,
        Culprit("frozen objects"),
        (
            f"objects frozen by gc.freeze(): {evidence.early.gc_frozen_objects} -> "
            f"{evidence.late.gc_frozen_objects}",
            *growth_lines(evidence),
        ),
        "every gc.freeze() hides all live objects from the garbage collector for good: freeze "
        "once, before the loop, or call gc.unfreeze() and gc.collect() first",
    )


def _given_back(timeline: Timeline) -> tuple[int, int]:
    """(bytes, objects) that a collection and a trim at the end freed."""
    probe = timeline.release_probe
    return (probe.anon_bytes - probe.after_trim_bytes, probe.collected_objects) if probe else (0, 0)


def _pinned(evidence: LeakEvidence) -> Explanation | None:
    grown = grown_classes(evidence)
    owners = evidence.owners()
    owned = sum(growth for _, growth in owners)
    if not grown or owned < thresholds.GOOD_PART * evidence.total:
        return None
    account = owners[0][0]
    return pinned_by(evidence, grown[0], path_in(evidence, account))


def _pinned_native(evidence: LeakEvidence) -> Explanation | None:
    """Native memory that comes with objects whose number grows: figures, renderers, handles."""
    native = sum(max(0, evidence.growth.get(name, 0)) for name in _NATIVE)
    most = native / thresholds.NATIVE_BYTES
    grown = [
        row
        for row in grown_classes(evidence)
        # a frame keeps whatever its function had
        if row[2] - row[1] <= most or row[0] in evidence.late.frame_holders
    ]
    if native < thresholds.MOST * evidence.total or not grown:
        return None
    return pinned_by(evidence, grown[0], "")


def _many_objects(evidence: LeakEvidence) -> Explanation | None:
    """Python's objects grow with the number of instances of a class of the program.

    What holds them may be deep: a tree, a chain of parents.
    """
    python = evidence.growth.get("python/objects", 0)
    if python < thresholds.GOOD_PART * evidence.total:
        return None
    own = [row for row in grown_classes(evidence) if row[0] in evidence.late.user_classes]
    least = thresholds.SMALL_PART * python / thresholds.INSTANCE_BYTES
    many = [row for row in own if row[2] - row[1] >= least]
    return pinned_by(evidence, max(many, key=lambda row: row[2] - row[1]), "") if many else None


def _held_by_owner(evidence: LeakEvidence) -> Explanation | None:
    owners = evidence.owners()
    if not owners or owners[0][1] < thresholds.GOOD_PART * evidence.total:
        return None
    account = owners[0][0]
    path = path_in(evidence, account)
    if are_small_views(evidence, account):
        return pinned_views(evidence, account, path)
    large = [item for item in evidence.late.large_objects if item.account == account]
    kind = large[0].type if large else array_type(evidence)
    return Explanation(
        Cause.UNBOUNDED_CONTAINER,
        Culprit(kind, path),
        tuple(growth_lines(evidence)),
        f"{path} only grows: bound it or clear it every iteration",
    )


def _allocator(evidence: LeakEvidence) -> Explanation | None:
    if evidence.share("allocator/free", "python/free") < thresholds.MOST:
        return None
    if evidence.share("python/free") > evidence.share("allocator/free"):
        return _arenas_explanation(growth_lines(evidence))
    return _allocator_explanation(growth_lines(evidence), evidence.timeline)


def _arenas_explanation(lines: list[str]) -> Explanation:
    return Explanation(
        Cause.ALLOCATOR_RETENTION,
        Culprit("Python arenas", "python/free"),
        tuple(lines),
        "a few small Python objects that stay alive keep whole arenas of freed ones in memory, "
        "and malloc_trim does not return arenas: store what stays in arrays (numpy, array.array) "
        "instead of small objects, or create it apart from short-lived objects",
    )


def _allocator_explanation(lines: list[str], timeline: Timeline) -> Explanation:
    probe = timeline.release_probe
    trimmed = probe.after_collect_bytes - probe.after_trim_bytes if probe else 0
    if trimmed > MIB:
        lines.append(f"malloc_trim(0) at the end gave {format_bytes(trimmed)} back")
    return Explanation(
        Cause.ALLOCATOR_RETENTION,
        Culprit("malloc", "allocator/free"),
        tuple(lines),
        "malloc keeps freed memory between small survivors: call malloc_trim(0) once an iteration "
        "(ctypes.CDLL('libc.so.6').malloc_trim(0)), or start with MALLOC_MMAP_THRESHOLD_=65536"
        + _shapes_advice(timeline),
        apply="malloc",
    )


def _shapes_advice(timeline: Timeline) -> str:
    """Why torch may grow on a CPU: https://github.com/pytorch/pytorch/issues/32037."""
    if "torch" not in timeline.versions:
        return ""
    return (
        "; if the network gets tensors of many shapes, oneDNN keeps kernels for each shape: "
        "pad them to a few sizes, or start with ONEDNN_PRIMITIVE_CACHE_CAPACITY=64"
    )


def _native(evidence: LeakEvidence) -> Explanation | None:
    if evidence.share(*_NATIVE) < thresholds.MOST:
        return None
    return Explanation(
        Cause.NATIVE_LEAK,
        Culprit("native memory", ""),
        (*growth_lines(evidence), "no Python object, array or tensor accounts for it"),
        "a native library does not free what it allocates: run the environment alone to see "
        "whether it is the one, and restart its process now and then until it is fixed"
        + _shapes_advice(evidence.timeline),
    )


def _traced(evidence: LeakEvidence) -> Explanation | None:
    found = traced_leak(evidence)
    return Explanation(Cause.GRAPH_RETENTION, *found) if found else None


_RULES: tuple[Callable[[LeakEvidence], Explanation | None], ...] = (
    _traced,
    _graph,
    _gc_off,
    growing_container,
    _pinned,
    _held_by_owner,
    _many_objects,
    _allocator,
    _pinned_native,
    _native,
)

# rules by counts, not by shares of the growth: they hold even where snapshots are few and early
_RULES_BY_COUNT = (_traced, _graph, _gc_off, growing_container, _pinned, _pinned_native)


# ---- without snapshots ---------------------------------------------------------------------------


def _from_allocators(timeline: Timeline) -> Explanation:
    """What the allocators say of themselves, where the run was too short for snapshots."""
    kept = [p for p in timeline.points if p.malloc_in_use_bytes is not None]
    if len(kept) < 2:
        return Explanation(Cause.UNKNOWN, evidence=("no snapshots to compare",))
    first, last = kept[int(thresholds.START * len(kept))], kept[-1]
    in_use = (last.malloc_in_use_bytes or 0) - (first.malloc_in_use_bytes or 0)
    free = (last.malloc_free_bytes or 0) - (first.malloc_free_bytes or 0)
    python = (last.python_in_use_bytes or 0) - (first.python_in_use_bytes or 0)
    evidence = (
        f"malloc in use {format_delta(in_use)}, malloc free {format_delta(free)}, "
        f"Python objects {format_delta(python)} since iteration {first.generation}",
        "too few snapshots to name what holds it",
    )
    total = max(1, last.anon_bytes - first.anon_bytes)
    if free >= thresholds.MOST * total:
        return _allocator_explanation(list(evidence), timeline)
    if python >= thresholds.MOST * total:
        return Explanation(
            Cause.UNBOUNDED_CONTAINER,
            Culprit("Python objects"),
            evidence,
            _RUN_LONGER,
            is_guess=True,
        )
    at_exit = timeline.allocators_at_exit
    left = at_exit.malloc_in_use_bytes if at_exit is not None else None
    if in_use >= thresholds.MOST * total and left is not None:
        released = (last.malloc_in_use_bytes or 0) - left
        line = f"malloc in use fell by {format_bytes(max(0, released))} when the program ended"
        if released >= thresholds.MOST * in_use:
            return Explanation(
                Cause.UNBOUNDED_CONTAINER, Culprit(kind_of_array(timeline)), (*evidence, line),
                _RUN_LONGER, is_guess=True,
            )  # fmt: skip
        return Explanation(Cause.UNKNOWN, evidence=(*evidence, line), advice=_RUN_LONGER)
    return Explanation(Cause.UNKNOWN, evidence=evidence, advice=_RUN_LONGER)


_RUN_LONGER = "run more iterations, or with `ramledger run --budget 0.1`, to see what holds it"
