"""What one statement lets us say without a saving: will it fit, is it a leak, is it the threads.

Beliefs that are repeated everywhere are answered with the process's own numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ramledger.diagnose.advice import worth_bytes
from ramledger.ledger import Entry, Statement
from ramledger.units import format_bytes, format_duration

NEAR_LIMIT = 0.85
_MANY_THREADS = 8
_MANY_ARENAS = 8
_MANY_GRAPHS = 1000
_LONG_ENOUGH_SECONDS = 600.0
_LEAST_FILL = 0.05

Rule = Callable[[Statement], str]


def remarks(statement: Statement) -> list[str]:
    """Sentences, the most urgent first."""
    return [text for rule in _RULES if (text := rule(statement))]


@dataclass(frozen=True, slots=True)
class _Filling:
    """A buffer: its pages become resident as it fills."""

    name: str
    resident_bytes: int
    full_bytes: int
    fill: float

    @property
    def still_to_come_bytes(self) -> int:
        return self.full_bytes - self.resident_bytes


def near_the_limit(statement: Statement) -> str:
    """How much is left, where little is."""
    limit = statement.limit
    if limit is None or not limit.bytes:
        return ""
    used = _used_bytes(statement)
    if used < NEAR_LIMIT * limit.bytes:
        return ""
    who = "the processes of this tree use" if statement.children else "it uses"
    return (
        f"{who} {used / limit.bytes:.0%} of the limit of {format_bytes(limit.bytes)} "
        f"({limit.source}): {format_bytes(max(0, limit.bytes - used))} are left"
    )


def still_filling(statement: Statement) -> str:
    """Growth that ends by itself, and whether it ends before the limit."""
    buffers = [b for b in _buffers(statement) if b.still_to_come_bytes >= worth_bytes(statement)]
    if not buffers:
        return ""
    to_come = sum(b.still_to_come_bytes for b in buffers)
    names = ", ".join(f"{b.name} is {b.fill:.0%} full" for b in buffers)
    end = f"RSS grows by up to {format_bytes(to_come)} until it is full, and that is no leak"
    limit, used = statement.limit, _used_bytes(statement)
    if limit is not None and used + to_come > limit.bytes:
        left = format_bytes(max(0, limit.bytes - used))
        end = (
            f"it needs up to {format_bytes(to_come)} more, and only {left} are left under the "
            f"limit of {format_bytes(limit.bytes)} ({limit.source}): it will not fit"
        )
    return f"{names}{_time_to_fill(statement, buffers)}: {end}"


def kept_graphs(statement: Statement) -> str:
    count = statement.facts.get("tensors_with_graph", 0)
    if count < _MANY_GRAPHS:
        return ""
    return (
        f"{count:,} live tensors carry a grad_fn, and each keeps the graph alive that it came "
        "from: keep numbers, not tensors (loss.item(), tensor.detach())"
    )


def training_state(statement: Statement) -> str:
    """Why a training needs a multiple of its networks."""
    optimizer, gradients = statement.total("optimizer"), statement.total("gradients")
    networks = statement.total("networks")
    if networks < gradients or optimizer < worth_bytes(statement):
        return ""
    return (
        f"networks take {format_bytes(networks)}, their gradients {format_bytes(gradients)} and "
        f"the optimizer {format_bytes(optimizer)}: with its gradient and Adam's two moments, a "
        "trained parameter takes 16 bytes, not 4"
    )


def thread_arenas(statement: Statement) -> str:
    """From outside, arenas are seen, but not how much of them is free."""
    entry = statement.get("heap/thread arenas")
    arenas = statement.facts.get("thread_arenas", 0)
    if statement.inside or entry is None or arenas < _MANY_ARENAS:
        return ""
    if entry.resident_bytes < worth_bytes(statement):
        return ""
    return (
        f"{statement.threads} threads made {arenas} malloc arenas, which hold "
        f"{format_bytes(entry.resident_bytes)}: --inside says how much of it is free"
    )


def thread_stacks(statement: Statement) -> str:
    """The most repeated false belief, answered with this process's own numbers."""
    stacks = statement.facts.get("thread_stacks") or {}
    reserved, resident = stacks.get("reserved_bytes", 0), stacks.get("resident_bytes", 0)
    if stacks.get("count", 0) < _MANY_THREADS or not reserved:
        return ""
    return (
        f"{stacks['count']} thread stacks reserve {format_bytes(reserved)} of address space and "
        f"hold {format_bytes(resident)} of RAM: fewer threads would save at most that"
    )


def _used_bytes(statement: Statement) -> int:
    if not statement.children:
        return statement.rss_bytes
    return statement.pss_bytes + sum(child.pss_bytes for child in statement.children)


def _buffers(statement: Statement) -> list[_Filling]:
    """Accounts that say how full they are, by the family they belong to."""
    families: dict[str, list[Entry]] = {}
    for entry in statement.entries:
        if entry.fill is not None and entry.fill < 1:
            families.setdefault(entry.account.partition("/")[0], []).append(entry)
    return [
        _Filling(
            name,
            sum(e.resident_bytes for e in entries),
            sum(e.full_bytes for e in entries),
            min(e.fill for e in entries if e.fill is not None),
        )
        for name, entries in families.items()
    ]


def _time_to_fill(statement: Statement, buffers: list[_Filling]) -> str:
    fill = min(buffer.fill for buffer in buffers)
    if statement.uptime_seconds < _LONG_ENOUGH_SECONDS or fill < _LEAST_FILL:
        return ""
    left_seconds = statement.uptime_seconds * (1 - fill) / fill
    return f" and, at the pace since it started, full in {format_duration(left_seconds)}"


_RULES: tuple[Rule, ...] = (
    near_the_limit,
    still_filling,
    kept_graphs,
    thread_arenas,
    thread_stacks,
    training_state,
)
