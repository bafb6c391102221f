"""All of a run in tables: the whole statement at its peak, trend, growth, objects, phases."""

from dataclasses import dataclass, replace

from ramledger.diagnose.advice import advise
from ramledger.diagnose.copied_lists import copied_in_run
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.own_replay import with_replay_rows
from ramledger.events import SnapshotEvent
from ramledger.ledger import StatementDiff, printable
from ramledger.report.growth_captions import growth_rows, phases_caption, table_caption
from ramledger.report.object_rows import with_counts
from ramledger.report.plan_grade import graded
from ramledger.report.remedy_report import not_yet_applied
from ramledger.report.terminal.growth_words import growing_text
from ramledger.report.terminal.sheet import Sheet
from ramledger.report.terminal.statement_text import print_statement
from ramledger.run.iterations import Iteration
from ramledger.run.model import Run
from ramledger.run.snapshots import ProcessSnapshots
from ramledger.type_ranks import KNOWN, MOST_ROWS, TypeRank, listed_types, type_rank
from ramledger.units import MIB, format_bytes, format_delta, format_duration

TOP_ACCOUNTS = 10
TOP_LARGE = 5
AT_PEAK = 0.03  # a statement that is nearer to the peak than this share is the one at the peak
TOP_CHANGES = 8
MAX_TREND_ROWS = 24
_SIZE, _GAP = 11, "  "
_WORTH_BYTES = MIB  # smaller changes are not worth a row
_WORTH_CHANGE = 0.1  # of a count
_WORTH_INSTANCES = 5  # more than before
_MOST_CHANGES = {**MOST_ROWS, TypeRank.OTHER: 4, TypeRank.CODE: 2}
_LEAST_WIDTH, _LEAST_NAME = 60, 12
_SHORT_SECONDS = 5.0
_ELIDED = ("…", "", "", "")


def print_details(sheet: Sheet, run: Run, diagnosis: Diagnosis | None) -> None:
    """All that the short summary leaves out."""
    snapshots = run.main_snapshots
    if snapshots is not None:
        _peak(sheet, snapshots, run)
    _trend(sheet, run, diagnosis)
    if snapshots is not None:
        _growth(sheet, snapshots, diagnosis)
    _phases(sheet, run, diagnosis)
    _functions(sheet, run)
    _plan(sheet, run)


# ---- peak, trend, growth --------------------------------------------------------------------


def _peak(sheet: Sheet, snapshots: ProcessSnapshots, run: Run) -> None:
    peak = snapshots.peak or snapshots.now
    statement = replace(
        with_counts(peak),
        label="",
        limit=run.limit or peak.statement.limit,
        large_objects=peak.statement.large_objects[:TOP_LARGE],
    )
    missing = run.peak_bytes - statement.rss_bytes if len(run.alive) <= 1 else 0
    is_near = missing <= AT_PEAK * run.peak_bytes
    when = f"{format_duration(peak.t)} into the run"
    if snapshots.peak is None:
        sheet.title(f"statement at the end, {when}: there is no snapshot of the run itself")
    else:
        title = "statement at the peak" if is_near else "statement nearest to the peak"
        sheet.title(f"{title}: {_name(peak)}, {when}")
    if not is_near:
        share = missing / run.peak_bytes
        text = f"RSS was {format_bytes(missing)} ({share:.0%}) higher between two snapshots"
        sheet.paragraph(text, "dim")
    statement = with_replay_rows(statement)
    advice = not_yet_applied(advise(statement, copied_in_run(run)), run)
    print_statement(statement, advice, top=TOP_ACCOUNTS, console=sheet.console)


def _name(snapshot: SnapshotEvent) -> str:
    if snapshot.label:
        return printable(snapshot.label)
    phase = printable(snapshot.phase)
    if snapshot.generation is None:
        return phase or f"the snapshot at {format_duration(snapshot.t)}"
    return f"iteration {snapshot.generation}" + (f" ({phase})" if phase else "")


def _trend(sheet: Sheet, run: Run, diagnosis: Diagnosis | None) -> None:
    rows = _trend_rows(run)
    if not rows:
        return
    sheet.title("trend")
    sheet.table(("after", "RSS", "change", "peak"), rows)
    for leak in diagnosis.leaks if diagnosis is not None else ():
        sheet.line(f"  {growing_text(leak)}")


def _trend_rows(run: Run) -> list[tuple[str, str, str, str]]:
    """Iterations spread over the run, each with its phases, and snapshots with a name.

    A change is against the row before it in the run; what is not shown is marked.
    """
    named = {phase.name for phase in run.iterations.phases(run.main_pid)}
    iterations = [
        replace(row, phases={k: done for k, done in row.phases.items() if k in named})
        for row in run.iterations.of(run.main_pid)
    ]
    phases = max((len(row.phases) for row in iterations), default=0)
    # where iterations are left out, a row between two says so
    is_whole = len(iterations) * max(1, phases) <= MAX_TREND_ROWS
    most = len(iterations) if is_whole else max(3, MAX_TREND_ROWS // (max(1, phases) + 1))
    shown = {row.generation for row in _spread(iterations, most)}
    points = []
    before_index = -1
    for row in iterations:
        is_after_gap, before_index = row.index != before_index + 1, row.index
        points += _iteration_points(row, row.generation in shown, is_after_gap=is_after_gap)
    points += [
        _Point(item.t, printable(item.label), item.rss_bytes)
        for item in run.iterations.labels
        if item.pid == run.main_pid
    ]
    rows: list[tuple[str, str, str, str]] = []
    before: int | None = None
    for point in sorted(points, key=lambda point: point.t):
        change = "baseline" if before is None else format_delta(point.rss_bytes - before)
        before = point.rss_bytes
        if (point.is_after_gap or not point.is_shown) and rows and rows[-1] != _ELIDED:
            rows.append(_ELIDED)
        if point.is_shown:
            peak = format_bytes(point.peak_bytes) if point.peak_bytes else ""
            rows.append((point.name, format_bytes(point.rss_bytes), change, peak))
    return rows


@dataclass(frozen=True, slots=True)
class _Point:
    """RSS after one phase of one iteration, or at a snapshot with a name."""

    t: float
    name: str
    rss_bytes: int
    peak_bytes: int = 0
    is_shown: bool = True
    is_after_gap: bool = False


def _iteration_points(row: Iteration, is_shown: bool, *, is_after_gap: bool) -> list[_Point]:
    name = f"iteration {row.generation}"
    passes = [done for done in row.phases.values() if done.after_bytes]
    if not passes:
        return [_Point(row.t, name, row.rss_bytes, 0, is_shown, is_after_gap)]
    return [
        _Point(
            row.t, f"{name}: {printable(done.name)}", done.after_bytes, done.peak_bytes, is_shown,
            is_after_gap and not at,
        )
        for at, done in enumerate(passes)
    ]  # fmt: skip


def _spread(rows: list[Iteration], most: int) -> list[Iteration]:
    if len(rows) <= most:
        return rows
    return [rows[round(at * (len(rows) - 1) / (most - 1))] for at in range(most)]


def _growth(sheet: Sheet, snapshots: ProcessSnapshots, diagnosis: Diagnosis | None) -> None:
    """The growth table; of a run too short to have one, what two snapshots differ by."""
    first, last = snapshots.baseline, snapshots.now
    if diagnosis is not None and diagnosis.growth_total is not None:
        sheet.title("growth")
        sheet.paragraph(table_caption(diagnosis), "dim")
        sheet.table(*growth_rows(diagnosis, TOP_CHANGES))
    elif first is not last:
        _difference(sheet, first, last)
    if first is not last:
        _object_changes(sheet, snapshots)


def _difference(sheet: Sheet, first: SnapshotEvent, last: SnapshotEvent) -> None:
    diff = StatementDiff(first.statement, last.statement)
    grown, before = diff.rss_growth_bytes, first.statement.rss_bytes
    share = f" ({grown / before:+.1%})" if before else ""
    sheet.title(f"growth from {_name(first)} to {_name(last)}: {format_delta(grown)}{share}")
    changes = [c for c in diff.changes if abs(c.growth_bytes) >= _WORTH_BYTES]
    sheet.table(
        ("account", "before", "after", "growth"),
        [
            (
                printable(c.account), format_bytes(c.before_bytes), format_bytes(c.after_bytes),
                format_delta(c.growth_bytes),
            )
            for c in changes[:TOP_CHANGES]
        ],
    )  # fmt: skip


def _object_changes(sheet: Sheet, snapshots: ProcessSnapshots) -> None:
    first, last = snapshots.baseline, snapshots.now
    rows = [
        (printable(name), _count(before), _count(after), f"{after - before:+,}")
        for name, before, after in _changed_counts(snapshots)
    ]
    graphs = first.tensors_with_graph, last.tensors_with_graph
    if graphs[0] != graphs[1]:
        change = f"{graphs[1] - graphs[0]:+,}"
        rows.append(("tensors with a grad_fn", _count(graphs[0]), _count(graphs[1]), change))
    sheet.table(("live objects", "before", "after", "change"), rows)
    sheet.table(
        ("containers", "before", "after", "change"),
        [
            (printable(path), _count(before), _count(after), f"{after - before:+,}")
            for path, before, after in _grown_containers(first, last)[:TOP_CHANGES]
        ],
    )


def _count(number: int) -> str:
    return f"{number:,}"


def _changed_counts(snapshots: ProcessSnapshots) -> list[tuple[str, int, int]]:
    """The user's classes and known roles first, also those that stay; then types that grow.

    By relative change, which sets a leaked class apart from the many built-in types. A frame or an
    iterator more is the moment, not growth.
    """
    users = {*snapshots.now.user_classes, *snapshots.baseline.user_classes}
    ranked = [(type_rank(row[0], users), row) for row in snapshots.count_changes]
    kept = [
        (rank, row)
        for rank, row in ranked
        if rank in KNOWN or (_has_grown(row) and rank != TypeRank.HIDDEN)
    ]
    kept.sort(key=lambda pair: (-_relative_change(pair[1]), pair[1][0]))
    by_name = {row[0]: row for _, row in kept}
    return [by_name[name] for name in listed_types(by_name, users, _MOST_CHANGES)]


def _has_grown(row: tuple[str, int, int]) -> bool:
    return row[2] - row[1] >= _WORTH_INSTANCES and _relative_change(row) >= _WORTH_CHANGE


def _relative_change(row: tuple[str, int, int]) -> float:
    return abs(row[2] - row[1]) / max(row[1], 1)


def _grown_containers(first: SnapshotEvent, last: SnapshotEvent) -> list[tuple[str, int, int]]:
    lengths = {item.path: item.length for item in first.containers}
    grown = [
        (f"{item.path} ({item.type.rpartition('.')[2]})", lengths[item.path], item.length)
        for item in last.containers
        if item.length > lengths.get(item.path, item.length)
    ]
    return sorted(grown, key=lambda row: row[1] - row[2])


# ---- phases, functions, remarks -------------------------------------------------------------


def _phases(sheet: Sheet, run: Run, diagnosis: Diagnosis | None) -> None:
    """The growth of all phases and of the time between them is that of the process."""
    totals = run.iterations.phases(run.main_pid)
    if not totals:
        return
    rows = [
        (
            printable(t.name), format_bytes(t.peak_bytes),
            format_delta(round(t.growth_per_iteration)), format_delta(t.growth_bytes),
            format_duration(t.seconds), f"{t.passes:,}",
        )
        for t in totals
    ]  # fmt: skip
    between = run.iterations.between_phases_bytes(run.main_pid)
    if abs(between) >= _WORTH_BYTES:
        rows.append(("between phases", "", "", format_delta(between), "", ""))
    sheet.title("phases")
    sheet.table(("phase", "peak RSS", "an iteration", "net growth", "time", "passes"), rows)
    caption = phases_caption(diagnosis, [total.name for total in totals])
    if caption:
        sheet.paragraph(caption, "dim")


def _functions(sheet: Sheet, run: Run) -> None:
    grown = [(n, b) for n, b in run.function_growth.most_common(5) if b >= _WORTH_BYTES]
    if grown:
        sheet.title("functions running when memory grew")
        sheet.table(("function", "growth"), [(printable(n), format_delta(b)) for n, b in grown])


def _plan(sheet: Sheet, run: Run) -> None:
    rows = graded(run)
    if rows:
        sheet.title("the plan, graded")
        cells = [
            (row.account, format_bytes(row.planned_bytes), format_bytes(row.measured_bytes),
             row.error_text, row.verdict)
            for row in rows
        ]  # fmt: skip
        sheet.table(("account", "planned", "measured", "plan is off by", ""), cells)
