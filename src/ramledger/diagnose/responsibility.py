"""Who is responsible for a leak: the user's code, the environment, a library or the allocator."""

import re
from collections.abc import Iterable

from ramledger.diagnose.finding import Cause, Culprit

USER, ENVIRONMENT, ALLOCATOR = "your code", "environment", "allocator"
_LIBRARY = "library"
_FILE = re.compile(r"^(?:[\w.-]+\.py|__main__|<stdin>|<ipython[^:]*):")
_LOCAL = re.compile(r"^\w+\(\):")
_ENVIRONMENT_WORDS = ("env", "simulat", "emulat", "world", "game", "render")
_BUILTIN = frozenset({"builtins", "collections", "numpy", "torch", "jax", "tensorflow", ""})


def responsible_for(
    cause: Cause, culprit: Culprit, phase: str, user_classes: Iterable[str], accounts: Iterable[str]
) -> tuple[str, str]:
    """(who, by which evidence); ('', '') where no evidence decides."""
    if cause is Cause.ALLOCATOR_RETENTION:
        return ALLOCATOR, "freed memory stays with the allocator: no code holds it"
    own = set(user_classes)
    if _is_environment(culprit, own):
        return ENVIRONMENT, f"{culprit.type or culprit.path} belongs to the environment"
    if _is_named_by_user(culprit.path, own):
        what = "function" if culprit.is_code else "variable"
        return USER, f"{culprit.path} is a {what} of your program"
    if culprit.type in own:
        return USER, f"{culprit.type} is a class of your program"
    package = culprit.type.partition(".")[0] if "." in culprit.type else ""
    if package not in _BUILTIN:
        return f"{_LIBRARY} {package}", f"{culprit.type} is a class of {package}, nothing of yours"
    if cause is Cause.NATIVE_LEAK:
        return _native(phase, accounts)
    if cause is Cause.OUTSIDE_PROCESS:
        return USER, "your program starts the processes and makes the segments"
    if cause in (Cause.GRAPH_RETENTION, Cause.GC_OFF):
        return USER, "libraries leave graphs and the collector to the program"
    return "", ""


def _is_named_by_user(path: str, own: set[str]) -> bool:
    """`train.py:REPLAY`, `main():replay` or `Trainer.replay`, where Trainer is the user's class."""
    if _FILE.match(path) or _LOCAL.match(path):
        return True
    return path.partition(".")[0].partition("[")[0] in {name.rpartition(".")[2] for name in own}


def _is_environment(culprit: Culprit, own: set[str]) -> bool:
    name = culprit.type.rpartition(".")[2].lower()
    is_class = culprit.type in own or culprit.type.startswith(("gymnasium.", "gym.", "pettingzoo."))
    return culprit.path.startswith("env") or (is_class and name.endswith(("env", "environment")))


def _native(phase: str, accounts: Iterable[str]) -> tuple[str, str]:
    has_environment = any(account.partition("/")[0] == "env" for account in accounts)
    named = any(word in phase.lower() for word in _ENVIRONMENT_WORDS)
    if has_environment or named:
        return ENVIRONMENT, f"native memory grows in {phase or 'the loop'}, where it is stepped"
    return "native library", f"native memory grows in {phase or 'the loop'}, no object holds it"
