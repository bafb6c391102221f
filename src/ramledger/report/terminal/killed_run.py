"""A run that the kernel ended for memory: which process it was, what it held, what grew last."""

from dataclasses import dataclass

from ramledger.run.ending import JUST_NOW_SECONDS, SIGKILL, Ending, Grown, ending, grew_last
from ramledger.run.state import Looks, ProcessRow, RunState, account_totals
from ramledger.units import format_duration

TOP = 3


@dataclass(frozen=True, slots=True)
class KernelKill:
    """The process that was killed, as it was last seen; pid 0 when it was not seen."""

    pid: int
    command: str
    resident_bytes: int
    largest: tuple[tuple[str, int], ...] = ()
    grew_last: tuple[str, int] | None = None
    grew_when: str = ""


def kernel_kill(state: RunState) -> KernelKill | None:
    """Who was killed for memory, if the recorder saw that somebody was."""
    if state.end is None or not state.end.get("killed_by_kernel"):
        return None
    row = _victim(state)
    if row is None:
        return KernelKill(0, "", state.peak_bytes)
    looks = state.looks.get(row.pid)
    if looks is None:
        return KernelKill(row.pid, row.command, row.resident_bytes)
    entries = sorted(looks.now.statement.entries, key=lambda entry: -entry.resident_bytes)
    return KernelKill(
        row.pid,
        row.command or looks.now.statement.command,
        row.resident_bytes or looks.now.statement.rss_bytes,
        tuple((entry.account, entry.resident_bytes) for entry in entries[:TOP]),
        *_in_words(_grew_last(looks, state)),
    )


def ending_of_state(state: RunState) -> Ending:
    """How a run ended, as far as it is known."""
    row = _victim(state)
    looks = state.looks.get(row.pid) if row is not None else None
    limit = state.limit if state.limit is not None and state.limit.bytes else None
    return ending(
        state.end,
        state.pressures,
        seconds=state.now_seconds,
        used_bytes=state.used.last if len(state.used) else None,
        limit_bytes=limit.bytes if limit else None,
        grew_last=_grew_last(looks, state),
    )


def _victim(state: RunState) -> ProcessRow | None:
    """The root if a SIGKILL ended it; else, of those that ended just now, the largest."""
    root = state.processes.get(state.root_pid or 0)
    if state.end is None or (root is not None and state.end.get("signal") == SIGKILL):
        return root
    since = state.now_seconds - JUST_NOW_SECONDS
    ended = [
        row
        for row in state.processes.values()
        if row.ended_at is not None and row.ended_at >= since and row is not root
    ]
    return max(ended, key=lambda row: row.resident_bytes, default=root)


def _grew_last(looks: Looks | None, state: RunState) -> Grown | None:
    recent = looks.recent if looks is not None else ()
    levels = list(zip(state.tree.times, state.tree.values, strict=True))
    return grew_last([(look.t, account_totals(look.statement)) for look in recent], levels)


def _in_words(grown: Grown | None) -> tuple[tuple[str, int] | None, str]:
    if grown is None:
        return None, ""
    return grown[:2], f"in {format_duration(grown[2])}"
