"""START HERE. The data everything else passes around: Account, Entry, Statement, StatementDiff.

Frozen, no I/O. The one invariant: the entries of a statement plus `unexplained_bytes` are its RSS,
to the byte, because unexplained is *defined* as the rest and may not be negative.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

from ramledger import ledger_text
from ramledger.errors import ConfigError
from ramledger.ledger_text import printable as printable
from ramledger.units import format_bytes

STATEMENT_SCHEMA = "ramledger.statement/1"


class Source(StrEnum):
    """How an entry came to its account; decides whether its bytes are owned or only named."""

    CLAIM = "claim"  # ledger.claim("replay", buffer)
    RECOGNIZED = "recognized"  # a class we know: nn.Module, optimizer, env, replay buffer
    PATH = "path"  # the variable or attribute chain that holds it
    IMPORT = "import"  # added while a package was imported
    CALIBRATED = "calibrated"  # what the same import added to another process
    LIBRARY = "library"  # pages of a shared library or of the interpreter
    STACK = "stack"  # touched pages of thread stacks
    FILE = "file"  # pages of a mapped data file
    SHARED_MEMORY = "shared-memory"  # /dev/shm, memfd, System V
    TOOL = "tool"  # ramledger itself
    ALLOCATOR = "allocator"  # counted by malloc itself, owner unknown
    INTERPRETER = "interpreter"  # counted by CPython itself, owner unknown
    KERNEL = "kernel"  # vdso and the like

    @property
    def is_owner(self) -> bool:
        """Whether bytes of this source belong to something a user can point at."""
        return self not in (Source.ALLOCATOR, Source.INTERPRETER, Source.KERNEL)


LEAST_FILL = 0.02  # below, whole pages say too little of what a buffer takes once it is full


def full_bytes(resident_bytes: int, reserved_bytes: int, fill: float | None) -> int:
    """What a buffer takes once it is full: what is reserved, or less where its fill says so."""
    if fill is None or fill < LEAST_FILL:
        return reserved_bytes
    return min(reserved_bytes, max(resident_bytes, round(resident_bytes / fill)))


@dataclass(frozen=True, slots=True)
class Account:
    """Bytes under one name, such as `replay/observations`.

    An `Entry` of a statement is measured; a `Row` of a budget (plan/budget.py) is predicted, and
    has the same name. A budget is apart from here because no process that is measured needs one.
    """

    account: str

    @property
    def family(self) -> str:
        """The first part of its name: `replay`."""
        return self.account.partition("/")[0]

    def is_below(self, prefix: str) -> bool:
        """Whether it is the account `prefix` or lies under it."""
        return is_below(self.account, prefix)


@dataclass(frozen=True, slots=True)
class Entry(Account):
    """One account's bytes at one instant. `reserved_bytes` counts untouched pages too."""

    resident_bytes: int
    reserved_bytes: int
    source: Source
    objects: int | None = None
    fill: float | None = None
    note: str = ""

    @property
    def full_bytes(self) -> int:
        """What it takes once it is full."""
        return full_bytes(self.resident_bytes, self.reserved_bytes, self.fill)

    def to_dict(self) -> dict[str, Any]:
        return _as_dict(self) | {"source": str(self.source)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        known = _known_fields(cls, data)
        try:
            return cls(**{**known, "source": Source(known["source"])})
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"not an entry of a statement: {error}") from error


@dataclass(frozen=True, slots=True)
class Limit:
    """The memory limit that ends the process first, and where it was read."""

    bytes: int
    source: str


@dataclass(frozen=True, slots=True)
class LargeObject:
    """One array, tensor or container above the size threshold, with the path that holds it."""

    path: str
    account: str
    type: str
    resident_bytes: int
    reserved_bytes: int
    dtype: str = ""
    shape: tuple[int, ...] = ()
    fill: float | None = None
    shared_with: tuple[str, ...] = ()
    pinned_by_view: bool = False  # all that leads to it are views of a small part


@dataclass(frozen=True, slots=True)
class TypeCount:
    """Live instances of one type; bytes include the data that arrays and tensors own."""

    type: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Statement:
    """The table people read: every resident byte of one process at one instant."""

    pid: int
    command: str
    at: float
    rss_bytes: int
    entries: tuple[Entry, ...]
    pss_bytes: int = 0
    uss_bytes: int = 0
    vms_bytes: int = 0
    swap_bytes: int = 0
    threads: int = 0
    uptime_seconds: float = 0.0
    limit: Limit | None = None
    label: str = ""
    inside: bool = False
    anon_bytes: int = 0
    file_bytes: int = 0
    shmem_bytes: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    large_objects: tuple[LargeObject, ...] = ()
    types: tuple[TypeCount, ...] = ()
    notes: tuple[str, ...] = ()
    children: tuple["Statement", ...] = ()

    def __post_init__(self) -> None:
        if self.unexplained_bytes < 0:
            raise ConfigError(
                f"accounts exceed RSS by {-self.unexplained_bytes} bytes (pid {self.pid})",
                hint="this is a bug in ramledger: please report it with the statement's JSON",
            )

    @property
    def unexplained_bytes(self) -> int:
        """What nothing could name. Never hidden, spread or rounded away."""
        return self.rss_bytes - sum(entry.resident_bytes for entry in self.entries)

    @property
    def named_fraction(self) -> float:
        """Share of RSS booked to an owner or to a measured mechanism."""
        return 1 - self.unexplained_bytes / self.rss_bytes if self.rss_bytes else 1.0

    @property
    def owned_fraction(self) -> float:
        """Share of RSS booked to an owner: object, path, import, library, stack, file."""
        owned = sum(e.resident_bytes for e in self.entries if e.source.is_owner)
        return owned / self.rss_bytes if self.rss_bytes else 1.0

    def get(self, account: str) -> Entry | None:
        """The entry with exactly this account name, if there is one."""
        return next((e for e in self.entries if e.account == account), None)

    def total(self, prefix: str) -> int:
        """Resident bytes of an account and of everything below it: `total("replay")`."""
        return sum(e.resident_bytes for e in self.entries if e.is_below(prefix))

    def diff(self, other: "Statement") -> "StatementDiff":
        """What grew from this statement to `other`, account by account."""
        return StatementDiff(before=self, after=other)

    def to_dict(self) -> dict[str, Any]:
        """The public JSON document (`ramledger.statement/1`)."""
        return {
            "schema": STATEMENT_SCHEMA,
            "pid": self.pid,
            "command": self.command,
            "label": self.label,
            "at": self.at,
            "inside": self.inside,
            "rss_bytes": self.rss_bytes,
            "pss_bytes": self.pss_bytes,
            "uss_bytes": self.uss_bytes,
            "vms_bytes": self.vms_bytes,
            "swap_bytes": self.swap_bytes,
            "anon_bytes": self.anon_bytes,
            "file_bytes": self.file_bytes,
            "shmem_bytes": self.shmem_bytes,
            "threads": self.threads,
            "uptime_seconds": self.uptime_seconds,
            "limit": _as_dict(self.limit) if self.limit else None,
            "accounts": [entry.to_dict() for entry in self.entries],
            "unexplained_bytes": self.unexplained_bytes,
            "named_fraction": round(self.named_fraction, 6),
            "owned_fraction": round(self.owned_fraction, 6),
            "facts": dict(self.facts),
            "large_objects": [_as_dict(item) for item in self.large_objects],
            "types": [_as_dict(item) for item in self.types],
            "notes": list(self.notes),
            "children": [child.to_dict() for child in self.children],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON document back; unknown fields are ignored."""
        if data.get("schema") != STATEMENT_SCHEMA:
            raise ConfigError(
                f"not a ramledger statement: schema {data.get('schema')!r}",
                hint=f"this version reads {STATEMENT_SCHEMA}",
            )
        known = _known_fields(cls, data)
        try:
            limit = known.get("limit")
            known["limit"] = Limit(**_known_fields(Limit, limit)) if limit else None
            known["entries"] = tuple(Entry.from_dict(entry) for entry in data["accounts"])
            known["large_objects"] = tuple(_large_object(o) for o in data.get("large_objects", ()))
            known["types"] = tuple(
                TypeCount(**_known_fields(TypeCount, t)) for t in data.get("types", ())
            )
            known["notes"] = tuple(map(str, data.get("notes", ())))
            known["children"] = tuple(cls.from_dict(child) for child in data.get("children", ()))
            return cls(**known)
        except (AttributeError, KeyError, TypeError) as error:
            raise ConfigError(f"the statement is incomplete or malformed: {error}") from error

    def __str__(self) -> str:
        return ledger_text.statement_text(self)

    def __repr__(self) -> str:
        rss = format_bytes(self.rss_bytes)
        return f"<Statement of {ledger_text.statement_title(self)}: RSS {rss}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return ledger_text.statement_html(self)


@dataclass(frozen=True, slots=True)
class AccountChange:
    """Growth of one account between two statements."""

    account: str
    before_bytes: int
    after_bytes: int

    @property
    def growth_bytes(self) -> int:
        return self.after_bytes - self.before_bytes


@dataclass(frozen=True, slots=True)
class StatementDiff:
    """Two statements of a process, side by side; the growths sum to the growth of RSS."""

    before: Statement
    after: Statement

    @property
    def rss_growth_bytes(self) -> int:
        return self.after.rss_bytes - self.before.rss_bytes

    @property
    def changes(self) -> tuple[AccountChange, ...]:
        """All accounts of both, and `unexplained`, largest change first."""
        before, after = _by_account(self.before), _by_account(self.after)
        changes = [
            AccountChange(account, before.get(account, 0), after.get(account, 0))
            for account in before.keys() | after.keys()
        ]
        return tuple(sorted(changes, key=lambda c: (-abs(c.growth_bytes), c.account)))

    @property
    def count_changes(self) -> tuple[tuple[str, int, int], ...]:
        """(type, instances before, after) where the number of live instances changed."""
        before = {row.type: row.count for row in self.before.types}
        after = {row.type: row.count for row in self.after.types}
        changed = [
            (name, before.get(name, 0), after.get(name, 0))
            for name in before.keys() & after.keys() | (after.keys() - before.keys())
            if before.get(name, 0) != after.get(name, 0)
        ]
        return tuple(sorted(changed, key=lambda c: (-abs(c[2] - c[1]), c[0])))

    def to_dict(self) -> dict[str, Any]:
        return {
            "rss_growth_bytes": self.rss_growth_bytes,
            "count_changes": [list(change) for change in self.count_changes],
            "changes": [
                _as_dict(c) | {"growth_bytes": c.growth_bytes}
                for c in self.changes
                if c.growth_bytes
            ],
        }

    def __str__(self) -> str:
        return ledger_text.growth_text(self)

    def __repr__(self) -> str:
        return f"<StatementDiff {ledger_text.growth_title(self)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return ledger_text.growth_html(self)


def is_below(account: str, prefix: str) -> bool:
    """Whether `account` is `prefix` or lies under it: replay/observations is below replay."""
    return account == prefix or account.startswith(prefix + "/")


def in_printing_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Largest resident first; ties by name, so that two runs print alike."""
    return tuple(sorted(entries, key=lambda e: (-e.resident_bytes, e.account)))


def _by_account(statement: Statement) -> dict[str, int]:
    totals: dict[str, int] = {"unexplained": statement.unexplained_bytes}
    for entry in statement.entries:
        totals[entry.account] = totals.get(entry.account, 0) + entry.resident_bytes
    return totals


def _as_dict(record: Any) -> dict[str, Any]:
    return {
        f.name: list(value) if isinstance(value := getattr(record, f.name), tuple) else value
        for f in fields(record)
    }


def _known_fields(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in fields(kind)}
    return {name: value for name, value in data.items() if name in names}


def _large_object(data: Mapping[str, Any]) -> LargeObject:
    known = _known_fields(LargeObject, data)
    for name in ("shape", "shared_with"):
        known[name] = tuple(known.get(name, ()))
    return LargeObject(**known)
