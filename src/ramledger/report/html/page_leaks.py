"""Leaks for the page: the sentence, the line, who holds it, and the account that it grows in."""

import re
from collections.abc import Sequence
from typing import Any

from ramledger.diagnose.finding import Cause, CodeLines, Culprit, Diagnosis, Finding, GrowthLine
from ramledger.diagnose.leak_words import holder_chain, leak_sentence
from ramledger.report.account_words import meaning
from ramledger.run.timeline import Timeline

OTHER_PROCESSES, SHARED_MEMORY = "other processes", "shared memory"
_VARIABLES = "variables/"
_FILLS = ("filling", "constant")
_LEAST_SHARE = 0.1  # of all growth: below it, an account is not what the verdict is about
_HELD = (
    Cause.UNBOUNDED_CONTAINER,
    Cause.OBJECT_PINNED,
    Cause.PINNED_BY_SMALL_OWNER,
    Cause.GRAPH_RETENTION,
)
_LINE = re.compile(r"(?P<place>\S+:\d+)(?: in (?P<function>[^:]+))?(?:: (?P<text>.*))?", re.DOTALL)
_IN_FUNCTION = re.compile(r"(?P<function>[^:]+\(\)):(?P<name>.+)")
_IN_FILE = re.compile(r"(?P<file>[^:]+\.py):(?P<name>.+)")


def leaks_document(diagnosis: Diagnosis | None, timeline: Timeline) -> list[dict[str, Any]]:
    """One a leak, in the order of the findings."""
    if diagnosis is None:
        return []
    return [_leak(leak, diagnosis.growth, timeline) for leak in diagnosis.leaks]


def _leak(leak: Finding, growth: Sequence[GrowthLine], timeline: Timeline) -> dict[str, Any]:
    words = leak.summary.removeprefix("leak: ")
    if leak.cause is not None:
        words = leak_sentence(leak.cause, leak.culprit, leak.code)
    account = leaking_account(leak, growth)
    owner = f"{_VARIABLES}{leak.culprit.path}"
    line = next((row for row in growth if row.account == account == owner), None)
    return {
        "sentence": words,
        "account": account,
        "onset": _onset(leak.onset_generation, timeline),
        "line": _line(leak.code),
        "chain": _chain(leak.culprit) if leak.cause in _HELD else [],
        "length": None if line is None else line.length,
        "length_rate": None if line is None else line.length_per_generation,
    }


def leaking_account(leak: Finding, growth: Sequence[GrowthLine]) -> str:
    """Where the bytes of a leak are booked; '' where nothing that grows is known.

    The account of what holds it, or of its class; else what grew most of all that does not fill
    to a capacity, which is no variable where no variable is blamed.
    """
    if leak.cause is Cause.OUTSIDE_PROCESS:
        return SHARED_MEMORY if leak.culprit.type == SHARED_MEMORY else OTHER_PROCESSES
    grown = [line for line in growth if line.growth_bytes > 0]
    owner = leak.culprit.path
    of_owner = [line for line in grown if owner and _is_within(owner, line.account)]
    if of_owner:
        return max(of_owner, key=lambda line: len(line.account)).account
    own = leak.culprit.type.rpartition(".")[2]
    of_class = [line for line in grown if own and _is_of_class(own, line.account)]
    rising = [line for line in grown if line.shape not in _FILLS] or grown
    free = [line for line in rising if owner or not line.account.startswith(_VARIABLES)]
    largest = max(of_class or free, key=lambda line: line.growth_bytes, default=None)
    least = _LEAST_SHARE * sum(line.growth_bytes for line in grown)
    return "" if largest is None or largest.growth_bytes < least else largest.account


def _is_of_class(name: str, account: str) -> bool:
    return account.removeprefix(_VARIABLES).startswith((f"{name}.", f"<{name}>"))


def _is_within(path: str, account: str) -> bool:
    name = account.removeprefix(_VARIABLES)
    rest = path.removeprefix(name)
    return rest == "" or (rest != path and rest[0] in ".[")


def _onset(generation: int | None, timeline: Timeline) -> dict[str, float] | None:
    """When the first iteration that added to it began."""
    if generation is None or not timeline.points:
        return None
    before = [point.t for point in timeline.points if point.generation < generation]
    return {"generation": generation, "t": round(before[-1] if before else timeline.points[0].t, 3)}


def _line(code: CodeLines) -> dict[str, str] | None:
    """`{"place": "train.py:29", "function": "Journal.log", "text": "self.pages.append(page)"}`."""
    found = _LINE.fullmatch(code.best)
    if found is None:
        return None
    what = "stored here" if code.stored_at else "made here" if code.made_at else "memory grew here"
    return {**{name: text or "" for name, text in found.groupdict().items()}, "what": what}


def _chain(culprit: Culprit) -> list[dict[str, Any]]:
    """From what lives longest to what grows; `leaks` marks the reference that keeps it."""
    if culprit.is_code:
        return []
    names = holder_chain(culprit.path, culprit.type)
    if not names:
        return []
    holder = len(holder_chain(culprit.path)) - 1
    steps = [{"name": name, "note": "", "leaks": at == holder} for at, name in enumerate(names)]
    return [{**steps[0], **_root(names[0])}, *steps[1:]]


def _root(name: str) -> dict[str, str]:
    """What a chain begins with, in words."""
    if found := _IN_FUNCTION.fullmatch(name):
        return {"name": found["name"], "note": f"a variable of {found['function']}"}
    if found := _IN_FILE.fullmatch(name):
        return {"name": found["name"], "note": f"a global variable of {found['file']}"}
    return {"name": name, "note": meaning(name)}
