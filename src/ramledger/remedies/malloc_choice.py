"""Which variables of glibc's malloc an earlier recording or a plan speaks for, and why.

Measured in docs/remedies.md: few arenas pay where threads left free memory in theirs, a fixed
threshold where the main heap kept what was freed. MALLOC_TOP_PAD_ never lowered a peak.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ramledger.event_parts import Plan
from ramledger.ledger import Statement
from ramledger.units import MIB, format_bytes

_VALUES = {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_ARENA_MAX": "2"}
THRESHOLD, ARENAS = _VALUES
_WORTH_BYTES, _WORTH_SHARE = 16 * MIB, 0.05  # of RSS
_FEWEST_ARENAS = 4
_NEAR_PEAK = 0.75
_FREE = "allocator/free"


@dataclass(frozen=True, slots=True)
class MallocChoice:
    """Variables for the command, and one line that says what was chosen and why."""

    why: str
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What malloc kept free in one process at one moment."""

    main_bytes: int
    threads_bytes: int
    arenas: int
    threads: int
    rss_bytes: int
    peak_bytes: int

    @property
    def is_near_peak(self) -> bool:
        return self.rss_bytes >= _NEAR_PEAK * self.peak_bytes

    @property
    def worth_bytes(self) -> int:
        return max(_WORTH_BYTES, int(_WORTH_SHARE * self.rss_bytes))


DEFAULT = MallocChoice(
    f"{THRESHOLD}={_VALUES[THRESHOLD]}, the default where no earlier run or plan says more",
    {THRESHOLD: _VALUES[THRESHOLD]},
)


def choose(
    statements: Iterable[Statement] = (),
    peaks: Mapping[int, int] | None = None,
    plan: Plan | None = None,
) -> MallocChoice:
    """From the statements of an earlier run; else from a plan; else the default.

    `peaks`: the highest RSS of each process. Memory that is free long after its peak says nothing
    of the peak: trims give it back.
    """
    found = list(statements)
    seen = [one for s in found if (one := _evidence(s, (peaks or {}).get(s.pid, 0))) is not None]
    if any(one.is_near_peak for one in seen):
        return _from_run(seen, _settings(found))
    if plan is not None:
        return _from_plan(plan)
    return DEFAULT


def allowed(choice: MallocChoice, present: Mapping[str, str]) -> MallocChoice:
    """The same without what the user has set."""
    if "glibc.malloc." in present.get("GLIBC_TUNABLES", ""):
        return MallocChoice("no variable: GLIBC_TUNABLES has settings of malloc, which stay")
    kept = [name for name in choice.variables if name in present]
    if not kept:
        return choice
    rest = {name: value for name, value in choice.variables.items() if name not in kept}
    stays = ", ".join(f"{name}={present[name]}" for name in kept)
    text = "".join(f"{name}={value}, " for name, value in rest.items())
    return MallocChoice(f"{text or 'no variable: '}{stays} was set before and stays", rest)


def _from_run(seen: list[_Evidence], settings: Mapping[str, str]) -> MallocChoice:
    reasons = {}
    near = [one for one in seen if one.is_near_peak]
    threads = max(near, key=lambda one: one.threads_bytes)
    if threads.arenas >= _FEWEST_ARENAS and threads.threads_bytes >= threads.worth_bytes:
        count = max(one.threads for one in seen)
        whose = f"{count} threads" if count >= threads.arenas else "threads that had ended"
        free = format_bytes(threads.threads_bytes)
        reasons[ARENAS] = f"{free} were free in {threads.arenas} arenas of {whose}"
    main = max(near, key=lambda one: one.main_bytes)
    if main.main_bytes >= main.worth_bytes:
        reasons[THRESHOLD] = f"{format_bytes(main.main_bytes)} were free in the main heap"
    # a run that had them already shows what is left with them, not what they save
    reasons |= {name: "the earlier run had it" for name in _VALUES if name in settings}
    values = {name: settings.get(name, _VALUES[name]) for name in reasons}
    if not values:
        most = max(one.main_bytes + one.threads_bytes for one in near)
        return MallocChoice(
            f"no variable: near its peak, malloc kept {format_bytes(most)} free in the earlier run"
        )
    lines = [f"{name}={values[name]}, because {why}" for name, why in reasons.items()]
    return MallocChoice("; ".join(lines), values)


def _from_plan(plan: Plan) -> MallocChoice:
    free = sum(row.bytes for row in plan.accounts if row.account == _FREE)
    if free < max(_WORTH_BYTES, _WORTH_SHARE * plan.peak_bytes):
        planned = f"the plan has {format_bytes(free)} of freed memory that malloc keeps"
        return MallocChoice(f"no variable: {planned}")
    value = _VALUES[THRESHOLD]
    why = f"the plan has {format_bytes(free)} free in the heap during updates"
    return MallocChoice(f"{THRESHOLD}={value}, because {why}", {THRESHOLD: value})


def _evidence(statement: Statement, peak_bytes: int) -> _Evidence | None:
    """None where malloc was not asked, or is not glibc's."""
    malloc: Mapping[str, Any] | None = statement.facts.get("malloc")
    if not malloc:
        return None
    entry = statement.get(_FREE)
    # free address space is not all resident
    free = min(malloc.get("free_bytes", 0), entry.resident_bytes if entry is not None else 0)
    listed = {arena["index"]: arena["free_bytes"] for arena in malloc.get("largest_arenas", ())}
    total = max(1, malloc.get("free_bytes", 0))
    main = free * min(total, listed.get(0, 0)) // total
    return _Evidence(
        main_bytes=main,
        threads_bytes=free - main,
        arenas=malloc.get("arenas", 0),
        threads=statement.threads,
        rss_bytes=statement.rss_bytes,
        peak_bytes=peak_bytes,
    )


def _settings(statements: Iterable[Statement]) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in statements:
        settings: Mapping[str, str] = statement.facts.get("settings") or {}
        found |= {name: settings[name] for name in _VALUES if name in settings}
    return found
