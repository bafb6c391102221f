"""Objects that stay alive, and what small thing keeps them: a reference, a view, a frame."""

from ramledger.diagnose.explanation import Explanation
from ramledger.diagnose.finding import Cause, Culprit
from ramledger.diagnose.leak_evidence import Case, growth_lines
from ramledger.units import format_bytes


def are_small_views(case: Case, account: str) -> bool:
    """Whether most of what an account keeps alive is seen through small views only."""
    row = case.late.views.get(account, {})
    return int(row.get("bytes") or 0) > 0.5 * int(row.get("of_bytes") or 1)


def pinned_views(case: Case, account: str, path: str) -> Explanation:
    row = case.late.views[account]
    shape = "x".join(map(str, row.get("shape") or ()))
    size = format_bytes(int(row.get("largest_bytes") or 0))
    return Explanation(
        Cause.PINNED_BY_SMALL_OWNER,
        Culprit(str(row.get("type")), path),
        (f"{row.get('count')} views, such as one of {shape} that keeps {size} alive",
         *growth_lines(case)),
        f"{path} keeps small views of large arrays, and a view keeps the whole array alive: "
        "store a copy, array[...].copy() or tensor[...].clone()",
        0.85,
    )  # fmt: skip


def pinned_by(case: Case, row: tuple[str, int, int], path: str) -> Explanation:
    name, before, after = row
    if name in case.late.frame_holders:
        return _frame_explanation(case, row, path)
    small = path.startswith("<") or not path
    return Explanation(
        Cause.OBJECT_PINNED,
        Culprit(name, path),
        (f"live {name}: {before} -> {after}", *growth_lines(case)),
        f"{name} instances stay alive"
        + (f", held by {path}" if path and not small else "")
        + ": drop the reference when they are done (registries, callbacks, caches such as "
        "functools.cache on a method); close() alone does not free them",
        0.85,
    )


def _frame_explanation(case: Case, row: tuple[str, int, int], path: str) -> Explanation:
    name, before, after = row
    return Explanation(
        Cause.PINNED_BY_SMALL_OWNER,
        Culprit(name, path),
        (f"live {name}: {before} -> {after}, with a frame or a traceback", *growth_lines(case)),
        f"{name} instances keep a frame or a traceback, and with it all locals of the functions "
        "it came from: keep text instead (traceback.format_exc(), str(error)), or use "
        "error.with_traceback(None)",
        0.85,
    )
