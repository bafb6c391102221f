"""Who is responsible for a leak: by where the line that adds to it lives, and whose class it is."""

import re
from collections.abc import Iterable, Sequence

from ramledger.diagnose.finding import Cause, Culprit

USER, ALLOCATOR, NATIVE = "your code", "allocator", "native library"
_FILE = re.compile(r"^(?:[\w.-]+\.py|__main__|<stdin>|<ipython[^:]*):")
_LOCAL = re.compile(r"^\w+\(\):")
# their objects are made by whoever calls them
_BUILTIN = frozenset({"builtins", "collections", "numpy", "torch", "jax", "tensorflow", ""})


def responsible_for(
    cause: Cause, culprit: Culprit, added_in: Sequence[str], phase: str, user_classes: Iterable[str]
) -> tuple[str, str]:
    """(who, by which evidence); ('', '') where no evidence decides."""
    if cause is Cause.ALLOCATOR_RETENTION:
        return ALLOCATOR, "freed memory stays with the allocator: no code holds it"
    if added_in:
        return USER, f"{added_in[0]} adds to it"
    own = set(user_classes)
    if _is_named_by_user(culprit.path, own):
        what = "function" if culprit.is_code else "variable"
        return USER, f"{culprit.path} is a {what} of your program"
    if culprit.type in own:
        return USER, f"{culprit.type} is a class of your program"
    package = culprit.type.partition(".")[0] if "." in culprit.type else ""
    if package not in _BUILTIN:
        return f"library {package}", f"{culprit.type} is a class of {package}, not of your program"
    if cause is Cause.NATIVE_LEAK:
        return NATIVE, f"native memory grows in {phase or 'the loop'}, no object holds it"
    if cause is Cause.OUTSIDE_PROCESS:
        return USER, "your program starts the processes and makes the segments"
    if cause in (Cause.GRAPH_RETENTION, Cause.GC_OFF):
        return USER, "your program decides what keeps autograd graphs and when the collector runs"
    return "", ""


def _is_named_by_user(path: str, own: set[str]) -> bool:
    """`train.py:REPLAY`, `main():replay` or `Trainer.replay`, where Trainer is the user's class."""
    if _FILE.match(path) or _LOCAL.match(path):
        return True
    return path.partition(".")[0].partition("[")[0] in {name.rpartition(".")[2] for name in own}
