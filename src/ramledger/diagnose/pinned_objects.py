"""Objects that stay alive, and what small thing keeps them: a reference, a view, a frame."""

from collections import Counter

from ramledger.diagnose import thresholds
from ramledger.diagnose.finding import Cause, Culprit, Explanation
from ramledger.diagnose.leak_evidence import LeakEvidence, growth_lines
from ramledger.units import format_bytes


def are_small_views(evidence: LeakEvidence, account: str) -> bool:
    """Whether most of what an account keeps alive is seen through small views only."""
    pins = evidence.late.pinned_by_views.get(account)
    return pins is not None and pins.bytes > thresholds.MOST * (pins.of_bytes or 1)


def pinned_views(evidence: LeakEvidence, account: str, path: str) -> Explanation:
    pins = evidence.late.pinned_by_views[account]
    shape = "x".join(map(str, pins.shape))
    size = format_bytes(pins.largest_bytes)
    return Explanation(
        Cause.PINNED_BY_SMALL_OWNER,
        Culprit(pins.type, path),
        (f"{pins.count} views, such as one of {shape} that keeps {size} alive",
         *growth_lines(evidence)),
        f"{path} keeps small views of large arrays, and a view keeps the whole array alive: "
        "store a copy, array[...].copy() or tensor[...].clone()",
    )  # fmt: skip


def pinned_by(evidence: LeakEvidence, row: tuple[str, int, int], path: str) -> Explanation:
    name, before, after = row
    if not path or path == "other" or path.startswith("<"):
        path = _held_in(evidence, name) or path
    if name in evidence.late.frame_holders:
        return _frame_explanation(evidence, row, path)
    small = path.startswith("<") or not path
    return Explanation(
        Cause.OBJECT_PINNED,
        Culprit(name, path),
        (f"live {name}: {before} -> {after}", *growth_lines(evidence)),
        f"{name} instances stay alive"
        + (f", held by {path}" if path and not small else "")
        + ": drop the reference when they are done (registries, callbacks, caches such as "
        "functools.cache on a method); close() alone does not free them",
    )


def _held_in(evidence: LeakEvidence, name: str) -> str:
    """A container of such that gets longer, else the name that leads to most of some instances."""
    growing = [c for c in evidence.late.containers if c.of == name and evidence.table.may_grow(c)]
    if growing:
        return max(growing, key=lambda container: container.bytes).path
    short = name.rpartition(".")[2]
    found = [path for path in evidence.late.watched_paths.get(short, ()) if path != short]
    holders = Counter(path.rpartition("[")[0] or path for path in found)
    return holders.most_common(1)[0][0] if holders else ""


def _frame_explanation(evidence: LeakEvidence, row: tuple[str, int, int], path: str) -> Explanation:
    name, before, after = row
    return Explanation(
        Cause.PINNED_BY_SMALL_OWNER,
        Culprit(name, path),
        (f"live {name}: {before} -> {after}, with a frame or a traceback", *growth_lines(evidence)),
        f"{name} instances keep a frame or a traceback, and with it all locals of the functions "
        "it came from: keep text instead (traceback.format_exc(), str(error)), or use "
        "error.with_traceback(None)",
    )
