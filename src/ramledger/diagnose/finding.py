"""Findings: one judged fact each, with the numbers behind it. Frozen data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from ramledger.ledger import Limit
from ramledger.run.ending import Ending

DIAGNOSIS_SCHEMA = "ramledger.diagnosis/1"
_OPEN_BYTES = 1e14


class Verdict(StrEnum):
    """The answer to "is it a leak?"."""

    LEAK = "leak"
    HEALTHY = "healthy"
    UNDECIDED = "undecided"


class Kind(StrEnum):
    """What a finding is about; all but LEAK are healthy, WASTE could be saved."""

    LEAK = "leak"
    FILLING = "filling"
    WARM_UP = "warm-up"
    SPIKE = "spike"
    LEVEL_SHIFT = "level-shift"
    FILE_PAGES = "file-pages"
    SAWTOOTH = "sawtooth"
    WASTE = "waste"


class Cause(StrEnum):
    """Why memory leaks."""

    UNBOUNDED_CONTAINER = "unbounded-container"
    OBJECT_PINNED = "object-pinned"
    PINNED_BY_SMALL_OWNER = "pinned-by-small-owner"
    GRAPH_RETENTION = "graph-retention"
    NATIVE_LEAK = "native-leak"
    ALLOCATOR_RETENTION = "allocator-retention"
    OUTSIDE_PROCESS = "outside-process"
    GC_OFF = "gc-off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Culprit:
    """What grows and who holds it."""

    type: str = ""
    path: str = ""
    is_code: bool = False  # the path is a function that makes it, not a name that holds it

    @property
    def relation(self) -> str:
        """How the path is to the type, in words; '' without a path."""
        if not self.path:
            return ""
        return "in" if self.is_code else "held by"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The cause of a leak, as far as evidence shows it."""

    cause: Cause
    culprit: Culprit = field(default_factory=Culprit)
    evidence: tuple[str, ...] = ()
    advice: str = ""
    is_guess: bool = False  # a likely cause, where no snapshot shows the objects
    apply: str = ""  # the remedy of `run --apply` that helps
    added_in: tuple[str, ...] = ()  # lines that add to the container: `train.py:29 in Agent.log: …`


@dataclass(frozen=True, slots=True)
class CodeLines:
    """Each as `train.py:29 in Journal.log: self.pages.append(page)`, the likeliest first."""

    stored_at: tuple[str, ...] = ()
    made_at: tuple[str, ...] = ()
    grew_at: tuple[str, ...] = ()
    begins_at: tuple[str, ...] = ()  # where the container is made
    unclosed_at: tuple[tuple[str, str], ...] = ()  # opened there, and where what uses it ends

    @property
    def best(self) -> str:
        """The likeliest line."""
        return next(iter((*self.stored_at, *self.made_at, *self.grew_at)), "")

    @property
    def place(self) -> str:
        """`train.py:29`, where something is stored or made; '' where only growth was seen."""
        found = next(iter((*self.stored_at, *self.made_at)), "")
        return found.partition(" in ")[0]

    def evidence(self) -> list[str]:
        """One line each for a reader."""
        if self.stored_at or self.made_at:
            return [
                *(f"stored at {line}" for line in self.stored_at),
                *(f"made at {line}" for line in self.made_at),
            ]
        return [f"memory grew at {line}" for line in self.grew_at]

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: list(lines) for name, lines in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class KnownLeak:
    """A leak of a library's release that somebody reported, and that the evidence fits."""

    package: str
    version: str
    leaks: str  # what
    fixed: str  # in which release; '' where in none
    link: str
    instead: str = ""  # what to do then

    @property
    def text(self) -> str:
        what = f"{self.package} {self.version} leaks {self.leaks}"
        return f"{what}; {f'fixed in {self.fixed}' if self.fixed else 'no release fixes it'}"

    @property
    def advice(self) -> str:
        return f"upgrade first: {self.text}" if self.fixed else f"{self.instead}: {self.text}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One judged fact. Rates are bytes per generation with an interval.

    Where no generations are known they are per minute: `per` says which.
    """

    kind: Kind
    summary: str
    phase: str = ""
    cause: Cause | None = None
    culprit: Culprit = field(default_factory=Culprit)
    bytes_per_generation: int = 0
    interval_bytes: tuple[int, int] = (0, 0)
    onset_generation: int | None = None
    confidence: float = 0.0  # how often such findings were right on the corpus
    is_guess: bool = False
    evidence: tuple[str, ...] = ()
    advice: str = ""
    apply: str = ""  # the remedy of `run --apply` that helps, without a change to the script
    fault: str = ""  # your code, environment, library NAME, native library, allocator
    per: str = "generation"
    code: CodeLines = field(default_factory=CodeLines)
    known: tuple[KnownLeak, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "kind": str(self.kind),
            "cause": str(self.cause) if self.cause else None,
            "culprit": {"type": self.culprit.type, "path": self.culprit.path},
            "interval_bytes": list(self.interval_bytes),
            "confidence": round(self.confidence, 2),
            "evidence": list(self.evidence),
            "apply": self.apply or None,
            "code": self.code.to_dict(),
            "known": [asdict(leak) | {"text": leak.text} for leak in self.known],
        }


def known_bytes(bound: float) -> int | None:
    """None where two points leave everything open."""
    return round(bound) if abs(bound) < _OPEN_BYTES else None


@dataclass(frozen=True, slots=True)
class GrowthLine:
    """One account's growth over a stretch of the run, and what its series does."""

    account: str
    growth_bytes: int
    bytes_per_generation: float
    interval_bytes: tuple[float, float]
    share: float  # of the growth of RSS
    shape: str
    level_bytes: int = 0  # at the end of the stretch
    onset_generation: int | None = None
    capacity_bytes: int | None = None
    forecast_bytes: int | None = None  # at the planned end
    per: str = "generation"  # what the rate is per
    length: int | None = None  # elements, where it is a container
    length_per_generation: float | None = None
    phase: str = ""  # that adds to it
    stored_at: str = ""  # the line that does, with its text

    @property
    def end_bytes(self) -> int:
        """Where it ends, as far as that is known: planned end, capacity, or the level it has."""
        if self.forecast_bytes is not None:
            return self.forecast_bytes
        return self.level_bytes if self.capacity_bytes is None else self.capacity_bytes

    def to_dict(self) -> dict[str, Any]:
        length_rate = self.length_per_generation
        return asdict(self) | {
            "bytes_per_generation": round(self.bytes_per_generation),
            "interval_bytes": [known_bytes(bound) for bound in self.interval_bytes],
            "share": round(self.share, 4),
            "length_per_generation": None if length_rate is None else round(length_rate, 3),
        }


@dataclass(frozen=True, slots=True)
class OutsideGrowth:
    """Growth outside of the process that trains: of a worker, or of /dev/shm."""

    pid: int | None  # None: /dev/shm
    growth: tuple[GrowthLine, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"pid": self.pid, "growth": [line.to_dict() for line in self.growth]}


@dataclass(frozen=True, slots=True)
class Outlook:
    """The memory of a run at its planned end, or at its plateau where no end is known."""

    generation: int | None  # the last one that is planned
    peak_bytes: int
    interval_bytes: tuple[int, int]
    file_bytes: int = 0  # of these, pages of files, which the kernel takes back
    limit: Limit | None = None
    limit_generation: int | None = None  # in which the limit is reached
    limit_interval: tuple[int, int | None] | None = None
    starting_bytes: int = 0  # of the peak, what worker processes that were starting lack

    @property
    def fits(self) -> bool | None:
        """None: that depends on how long it goes on, or on what the doubt hides."""
        if self.limit is None or not self.limit.bytes:
            return None
        if self.generation is None and self.limit_generation is not None:
            return None
        least, most = self.peak_bytes - self.file_bytes, self.interval_bytes[1] - self.file_bytes
        if least >= self.limit.bytes:
            return False
        return True if most < self.limit.bytes else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "generation": self.generation,
            "peak_bytes": self.peak_bytes,
            "interval_bytes": [known_bytes(bound) for bound in self.interval_bytes],
            "file_bytes": self.file_bytes,
            "limit_bytes": self.limit.bytes if self.limit is not None else None,
            "limit_source": self.limit.source if self.limit is not None else None,
            "fits": self.fits,
            "limit_generation": self.limit_generation,
            "limit_interval": list(self.limit_interval) if self.limit_interval else None,
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The verdict on one recording."""

    verdict: Verdict
    reason: str
    generations: int
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    ended: Ending | None = None
    growth: tuple[GrowthLine, ...] = ()  # by account; they sum to `growth_total`
    growth_total: GrowthLine | None = None  # of RSS
    growth_span: tuple[float, float] | None = None  # generations, or seconds where there are none
    outside: tuple[OutsideGrowth, ...] = ()
    outlook: Outlook | None = None
    command: str = ""  # of the run, as a shell takes it

    @property
    def leaks(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.kind is Kind.LEAK)

    def __repr__(self) -> str:
        return f"<Diagnosis {self.verdict}: {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from ramledger.report.html.displays import diagnosis_html

        return diagnosis_html(self)

    def to_dict(self) -> dict[str, Any]:
        """The public JSON document (`ramledger.diagnosis/1`)."""
        return {
            "schema": DIAGNOSIS_SCHEMA,
            "verdict": str(self.verdict),
            "reason": self.reason,
            "ended": None if self.ended is None else self.ended.to_dict(),
            "generations": self.generations,
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
            "facts": dict(self.facts),
            "growth": [line.to_dict() for line in self.growth],
            "growth_total": None if self.growth_total is None else self.growth_total.to_dict(),
            "growth_span": None if self.growth_span is None else list(self.growth_span),
            "outside": [one.to_dict() for one in self.outside],
            "forecast": None if self.outlook is None else self.outlook.to_dict(),
        }
