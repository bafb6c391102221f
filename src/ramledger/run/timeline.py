"""A recording as series: levels by generation, growth by phase, owners by snapshot.

Where a run has too few generations, equal stretches of time stand for them.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any

from ramledger.recording import Event, Recording

MIN_GENERATIONS = 5
MAX_STRETCHES = 60
_MOST_AROUND = 64  # samples around the end of a generation; of more, some are enough
_MOST_ALIKE = 40  # names that end alike; of more, none is sure to be the same thing
_AFTERMATH = 0.3  # turns this much shorter than usual, at the end, are another loop's
END = "end"  # the label of looks at exit
GROWTH_LEVELS = ("growth_bytes", "children_growth_bytes", "shm_growth_bytes")
_RARE_COLLECTION = 100_000  # a first threshold beyond this, or 0, is as good as none
_VARIABLES = "variables/"
_INDEX = re.compile(r"\[[^\]]*\]$")


@dataclass(frozen=True, slots=True)
class Point:
    """Levels at the end of one generation, in bytes."""

    generation: int
    t: float
    anon: int
    file: int
    children: int = 0  # anonymous memory of all other processes of the run
    shm: int = 0  # /dev/shm, whoever maps it
    malloc_in_use: int | None = None
    malloc_free: int | None = None
    python_used: int | None = None

    @property
    def in_use(self) -> float:
        """What malloc and Python have handed out, where the books are known."""
        return float((self.malloc_in_use or 0) + (self.python_used or 0))


@dataclass(frozen=True, slots=True)
class PhaseGrowth:
    """One phase within one generation."""

    name: str
    generation: int
    growth_bytes: float  # of all its passes, measured ones standing for the others
    peak_bytes: int
    before_bytes: int
    seconds: float
    origin: str
    children_bytes: int = 0  # growth of the run's other processes meanwhile
    shm_bytes: int = 0  # growth of /dev/shm meanwhile
    passes: int = 1


@dataclass(frozen=True, slots=True)
class Look:
    """One deep snapshot."""

    t: float
    generation: int | None
    phase: str
    label: str
    accounts: Mapping[str, Mapping[str, Any]]
    containers: tuple[Mapping[str, Any], ...]
    counts: Mapping[str, int]
    user_classes: frozenset[str]
    sizes: Mapping[str, list[int]]
    large_objects: tuple[Mapping[str, Any], ...]
    tensors_with_graph: int
    views: Mapping[str, Mapping[str, Any]]  # blocks seen through small views only, by account
    tensorflow: Mapping[str, Any]  # counts of graphs and tensors, where it is loaded
    collects: bool  # the garbage collector is on, at thresholds that are ever reached
    unexplained_bytes: int
    rss_bytes: int
    statement: Mapping[str, Any] = field(default_factory=dict)
    graph_depth: int = 0  # the longest history that a tensor carries
    frozen: int = 0  # objects that gc.freeze() took out of the collector's sight
    frame_holders: frozenset[str] = frozenset()  # classes whose instances keep a frame
    record_classes: frozenset[str] = frozenset()  # the user's dataclasses and named tuples
    sorted_names: tuple[str, ...] = field(init=False, compare=False)  # of accounts

    def __post_init__(self) -> None:
        object.__setattr__(self, "sorted_names", tuple(sorted(self.accounts)))

    def resident(self, account: str) -> int:
        return int(self.accounts.get(account, {}).get("resident_bytes", 0))


@dataclass(slots=True)
class Timeline:
    """Everything a judge looks at."""

    main_pid: int = 0
    by_generation: bool = False  # False: points are equal stretches of time
    points: list[Point] = field(default_factory=list)
    phases: list[PhaseGrowth] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    looks_by_name: list[Look] = field(default_factory=list)  # without counts of objects
    # (t, growth by level and function)
    function_growth: list[tuple[float, Mapping[str, Mapping[str, int]]]] = field(
        default_factory=list
    )
    # elements added, by the container's path and the phase
    added: dict[str, Counter[str]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    probe: Mapping[str, Any] | None = None
    last_books: Mapping[str, Any] | None = None  # malloc's books at exit, when locals are gone
    children: list[tuple[float, int, int]] = field(default_factory=list)  # t, bytes, /dev/shm
    samples: list[tuple[float, int]] = field(default_factory=list)  # t, anonymous bytes
    expectations: list[Mapping[str, Any]] = field(default_factory=list)
    worker_counts: list[tuple[float, int]] = field(default_factory=list)
    end: Mapping[str, Any] | None = None

    def generation_at(self, t: float) -> float:
        """The generation at a time, with its fraction; before the first and after the last, theirs.

        Looks carry the number of their moment, which may start again: this one only rises.
        """
        points = self.points
        after = bisect_right([point.t for point in points], t)
        if after == 0 or after == len(points):
            return float(points[min(after, len(points) - 1)].generation) if points else 0.0
        left, right = points[after - 1], points[after]
        share = (t - left.t) / (right.t - left.t) if right.t > left.t else 0.0
        return left.generation + share * (right.generation - left.generation)


def build_timeline(recording: Recording) -> Timeline:
    """Read the series off a recording."""
    timeline = Timeline(main_pid=_main_pid(recording))
    exits = [float(e["t"]) for e in _of(recording, "exit", timeline.main_pid)]
    last = min(exits, default=float("inf"))
    samples = [e for e in recording.of("sample") if float(e["t"]) <= last]
    children = _Children(recording, timeline.main_pid)
    timeline.children = [
        (float(e["t"]), children.bytes_in(e), _number(e, "shm_bytes")) for e in samples
    ]
    timeline.samples = [
        (float(e["t"]), int(row[0]))
        for e in samples
        if (row := _mapping(e, "processes").get(str(timeline.main_pid)))
    ]
    timeline.points = _generation_points(recording, timeline.main_pid, timeline.children)
    timeline.by_generation = len(timeline.points) >= MIN_GENERATIONS
    if not timeline.by_generation:
        timeline.points = _time_points(timeline.main_pid, samples, timeline.children)
    timeline.phases = _phases(recording, timeline)
    looks = [_look(e) for e in _of(recording, "snapshot", timeline.main_pid)]
    looks = _with_first_counts(looks, recording, timeline.main_pid)
    timeline.looks_by_name = aligned([_look(e) for e in _of(recording, "names", timeline.main_pid)])
    timeline.looks = aligned([_marked_late(look) if look.t > last else look for look in looks])
    for event in _of(recording, "functions", timeline.main_pid):
        growth = {level: _whole_numbers(_mapping(event, level)) for level in GROWTH_LEVELS}
        timeline.function_growth.append((float(event["t"]), growth))
    timeline.added = _added(recording, timeline.main_pid)
    timeline.probe = _best_probe(list(_of(recording, "probe", timeline.main_pid)))
    timeline.last_books = _books_at_exit(recording, timeline.main_pid, last)
    timeline.expectations = list(_of(recording, "expectation", timeline.main_pid))
    timeline.worker_counts = [(float(e["t"]), len(_mapping(e, "processes")) - 1) for e in samples]
    timeline.end = next(recording.of("end"), None)
    for event in _of(recording, "snapshot", timeline.main_pid):
        timeline.versions = {**timeline.versions, **_texts(_mapping(event, "versions"))}
    return timeline


def _added(recording: Recording, pid: int) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for event in _of(recording, "generation", pid):
        for path, by_phase in _mapping(event, "added").items():
            if isinstance(by_phase, dict):
                found.setdefault(path, Counter()).update(_whole_numbers(by_phase))
    return found


def _with_first_counts(looks: list[Look], recording: Recording, pid: int) -> list[Look]:
    """A class is listed once it is seen to grow; later looks tell what it began with."""
    began: dict[str, int] = {}
    for event in _of(recording, "snapshot", pid):
        began = {**_whole_numbers(_mapping(event, "first_counts")), **began}
    return [replace(looks[0], counts={**began, **looks[0].counts}), *looks[1:]] if looks else []


def _best_probe(probes: Sequence[Event]) -> Event | None:
    """The last one of the living program; else that at its exit, when its variables are gone."""
    live = [probe for probe in probes if probe.get("live") is True]
    return next(reversed(live or probes), None)


def _whole_numbers(values: Mapping[str, Any]) -> dict[str, int]:
    return {str(k): int(v) for k, v in values.items() if isinstance(v, int | float) and v == v}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {str(k): v for k, v in values.items() if isinstance(v, str)}


def _marked_late(look: Look) -> Look:
    """A look after the program's last line: only what was begun before still saw its variables."""
    return look if look.phase not in ("", END) else replace(look, label=END)


def aligned(looks: Sequence[Look]) -> list[Look]:
    """One name an account: a variable is seen as `run.agent.log` in one look, as `self.log` in
    another, depending on which function ran."""
    known: dict[str, dict[str, int]] = {}  # by last attribute: names, and bytes reserved there
    result = []
    for look in reversed(looks):
        names: dict[str, str] = {}
        taken: set[str] = set()
        elsewhere: dict[str, dict[str, int]] = {}  # by last attribute: names not in this look
        for name, row in look.accounts.items():
            tail = _tail(name)
            same = known.setdefault(tail, {})
            if tail not in elsewhere:
                elsewhere[tail] = {n: size for n, size in same.items() if n not in look.accounts}
            size = int(row.get("reserved_bytes") or 0)
            twin = _twin(name, size, elsewhere[tail]) if name not in same else ""
            if twin and twin not in taken:
                names[name] = twin
                taken.add(twin)
            else:
                same[name] = size
        result.append(_renamed(look, names) if names else look)
    result.reverse()
    return result


def _twin(name: str, size: int, others: Mapping[str, int]) -> str:
    """The one among other names of this last attribute that is the same thing; '' if unsure."""
    if not name.startswith(_VARIABLES) or len(others) > _MOST_ALIKE:
        return ""
    alike = [other for other in others if others[other] == size and size]
    deep = [other for other in others if other.count(".") == name.count(".")]
    return next((found[0] for found in (list(others), alike, deep) if len(found) == 1), "")


def _tail(account: str) -> str:
    return account.rpartition(".")[2] if account.startswith(_VARIABLES) else account


def _renamed(look: Look, names: Mapping[str, str]) -> Look:
    containers = tuple(
        {**c, "account": names[old], "path": _moved(str(c.get("path")), old, names[old])}
        if (old := str(c.get("account"))) in names
        else c
        for c in look.containers
    )
    accounts = {names.get(name, name): row for name, row in look.accounts.items()}
    views = {names.get(name, name): row for name, row in look.views.items()}
    return replace(look, accounts=accounts, containers=containers, views=views)


def _moved(path: str, old: str, new: str) -> str:
    before = old.removeprefix(_VARIABLES)
    return new.removeprefix(_VARIABLES) + path.removeprefix(before)


def _folded(accounts: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Accounts by name, items of one container (`log[0]`, `log[1]`) as one."""
    result: dict[str, dict[str, Any]] = {}
    for row in accounts:
        name = str(row.get("account"))
        if name.startswith(_VARIABLES):
            name = _INDEX.sub("", name)
        known = result.get(name)
        if known is None:
            result[name] = dict(row)
            continue
        for size in ("resident_bytes", "reserved_bytes"):
            known[size] = int(known.get(size) or 0) + int(row.get(size) or 0)
    return dict(result)


def _books_at_exit(recording: Recording, pid: int, exit_at: float) -> Mapping[str, Any] | None:
    books = [e for e in _of(recording, "books", pid) if float(e["t"]) >= exit_at]
    return books[-1] if books else None


def _main_pid(recording: Recording) -> int:
    """The process whose generations, else snapshots, else announcement came most."""
    for kind in ("generation", "snapshot", "functions"):
        pids = Counter(e.get("pid") for e in recording.of(kind) if isinstance(e.get("pid"), int))
        if pids:
            return int(pids.most_common(1)[0][0] or 0)
    first = next((e for e in recording.of("process") if isinstance(e.get("pid"), int)), None)
    return int(first["pid"]) if first else 0


def _of(recording: Recording, kind: str, pid: int) -> Iterable[Event]:
    return (e for e in recording.of(kind) if e.get("pid") == pid)


def _mapping(event: Event, name: str) -> Mapping[str, Any]:
    found = event.get(name)
    return found if isinstance(found, dict) else {}


def _number(event: Event, name: str) -> int:
    value = event.get(name)
    return int(value) if isinstance(value, int | float) and value == value else 0


class _Children:
    """Memory of the run's other processes, less the pages that a fork shares with its parent."""

    def __init__(self, recording: Recording, main_pid: int) -> None:
        self._main = str(main_pid)
        self._inherited = {
            str(e.get("pid")): _number(e, "inherited_bytes")
            for e in recording.of("process")
            if "inherited_bytes" in e
        }

    def bytes_in(self, sample: Event) -> int:
        rows = _mapping(sample, "processes")
        total = sum(
            max(0, int(row[0]) - self._inherited.get(pid, 0))
            for pid, row in rows.items()
            if pid != self._main and row
        )
        others = sample.get("others")
        if isinstance(others, list) and others:  # too many to be listed one by one
            total += max(0, int(others[0]) - _number(sample, "others_inherited_bytes"))
        return total


Outside = tuple[float, int, int]  # t, bytes of other processes, bytes in /dev/shm


def _generation_points(
    recording: Recording, main_pid: int, outside: Sequence[Outside]
) -> list[Point]:
    books = {e.get("generation"): e for e in _of(recording, "books", main_pid)}
    times = [t for t, _, _ in outside]
    points: list[Point] = []
    # the final one is measured at exit, when locals are gone already
    events = [e for e in _of(recording, "generation", main_pid) if not e.get("final")]
    moments = [float(event["t"]) for event in events]
    half = median(abs(b - a) for a, b in pairwise(moments)) / 2 if len(moments) > 1 else 0.0
    for event in events:
        at = float(event["t"])
        _, children, shm = (
            outside[min(bisect_left(times, at), len(times) - 1)] if outside else (0.0, 0, 0)
        )
        # what other processes take for a moment is not their level
        first, last = bisect_left(times, at - half / 2), bisect_right(times, at + half)
        around = outside[first : last : 1 + max(0, last - first) // _MOST_AROUND]
        children = min((row[1] for row in around), default=children)
        book = books.get(event.get("generation"), {})
        points.append(
            Point(
                _number(event, "generation"), at, _number(event, "anon_bytes"),
                _number(event, "file_bytes"), children, shm,
                book.get("malloc_in_use_bytes"), book.get("malloc_free_bytes"),
                book.get("python_used_bytes"),
            )
        )  # fmt: skip
    origins = [e.get("origin") for e in events]
    points = _numbered_upwards(points[_last_change(origins) :])
    return _without_aftermath(points) if "inferred" in origins else points


def _last_change(origins: Sequence[Any]) -> int:
    """Where the last kind of generation begins: a framework's own, before the loop was known."""
    at = len(origins)
    while at and origins[at - 1] == origins[-1]:
        at -= 1
    return at


def _numbered_upwards(points: list[Point]) -> list[Point]:
    """Numbers that start again, with every trial or once the outer loop is known, go on instead."""
    if len({point.generation for point in points}) == len(points):
        return sorted(points, key=lambda point: point.generation)  # a clock may go backwards
    return [replace(point, generation=i) for i, point in enumerate(points)]


def _without_aftermath(points: list[Point]) -> list[Point]:
    """Without the turns of a short loop that cleans up after the training loop."""
    gaps = sorted(b.t - a.t for a, b in pairwise(points))
    if len(gaps) < 2 * MIN_GENERATIONS:
        return points
    short = _AFTERMATH * gaps[len(gaps) // 2]
    last = len(points)
    while last > 2 and points[last - 1].t - points[last - 2].t < short:
        last -= 1
    return points[:last] if len(points) - last >= 2 else points


def _time_points(
    main_pid: int, samples: Sequence[Event], outside: Sequence[Outside]
) -> list[Point]:
    rows = [
        (out, row)
        for e, out in zip(samples, outside, strict=True)
        if (row := _mapping(e, "processes").get(str(main_pid)))
    ]
    if len(rows) > MAX_STRETCHES:
        step = len(rows) / MAX_STRETCHES
        rows = [rows[int(i * step)] for i in range(MAX_STRETCHES)]
    return [
        Point(i, t, int(row[0]), int(row[1]), children, shm)
        for i, ((t, children, shm), row) in enumerate(rows)
    ]


def _phases(recording: Recording, timeline: Timeline) -> list[PhaseGrowth]:
    """Growth by phase, less what was released for earlier ones."""
    found = [_phase(e) for e in _of(recording, "phase", timeline.main_pid)]
    for event in _of(recording, "generation", timeline.main_pid):
        generation = _number(event, "generation")
        for name, size in _whole_numbers(_mapping(event, "net_growth_bytes")).items():
            if name:
                found.append(PhaseGrowth(name, generation, float(size), 0, 0, 0.0, ""))
    first = timeline.points[0].generation if timeline.by_generation else None
    settled = [p for p in found if first is None or p.generation >= first]
    return sorted(settled, key=lambda p: p.generation) if timeline.by_generation else settled


def _phase(event: Event) -> PhaseGrowth:
    measured = max(1, _number(event, "measured"))
    scale = max(1.0, _number(event, "count") / measured)
    is_net = isinstance(event.get("net_growth_bytes"), int)
    growth = (
        float(_number(event, "net_growth_bytes"))
        if is_net
        else _number(event, "growth_bytes") * scale
    )
    return PhaseGrowth(
        str(event.get("name", "")), _number(event, "generation"), growth,
        _number(event, "peak_bytes"), _number(event, "before_bytes"),
        float(event.get("seconds") or 0), str(event.get("origin", "")),
        _number(event, "children_growth_bytes"), _number(event, "shm_growth_bytes"),
        max(1, _number(event, "count")),
    )  # fmt: skip


def _collects(event: Event) -> bool:
    threshold = event.get("gc_threshold", 700)
    reached = isinstance(threshold, int) and 0 < threshold <= _RARE_COLLECTION
    return event.get("gc_enabled") is not False and reached


def _look(event: Event) -> Look:
    statement = _mapping(event, "statement")
    accounts = statement.get("accounts") or []
    generation = event.get("generation")
    return Look(
        t=float(event["t"]),
        generation=generation if isinstance(generation, int) else None,
        phase=str(event.get("phase", "")),
        label=str(event.get("label", "")),
        accounts=_folded(a for a in accounts if isinstance(a, dict)),
        containers=tuple(
            {**c, "account": _INDEX.sub("", str(c.get("account")))}
            for c in event.get("containers") or ()
            if isinstance(c, dict)
        ),
        counts=_mapping(event, "counts"),
        user_classes=frozenset(map(str, event.get("user_classes") or ())),
        sizes=_mapping(event, "sizes"),
        large_objects=tuple(statement.get("large_objects") or ()),
        tensors_with_graph=_number(event, "tensors_with_graph"),
        views={
            _INDEX.sub("", account): row
            for account, row in _mapping(event, "views").items()
            if isinstance(row, dict)
        },
        tensorflow=_mapping(event, "tensorflow"),
        collects=_collects(event),
        unexplained_bytes=int(statement.get("unexplained_bytes") or 0),
        rss_bytes=int(statement.get("rss_bytes") or 0),
        statement=statement,
        graph_depth=_number(event, "graph_depth"),
        frozen=_number(event, "gc_frozen"),
        frame_holders=frozenset(_mapping(event, "frame_holders")),
        record_classes=frozenset(map(str, event.get("record_classes") or ())),
    )
