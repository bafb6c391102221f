"""What is said when a run is over: how it ended, the peak, the trend, the growth, the phases.

Plain lines that can be pasted into an issue. All of it comes from events, so it can be printed
from a recording on another computer as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ramledger.diagnose.advice import advise
from ramledger.ledger import StatementDiff, printable
from ramledger.report.plan_grade import graded
from ramledger.report.terminal.killed_run import KernelKill, ending_of_state, kernel_kill
from ramledger.report.terminal.live_view import broken_expectation
from ramledger.report.terminal.statement_text import print_statement
from ramledger.report.terminal.text_layout import cut_middle, in_ascii, left, right, short_command
from ramledger.run.iterations import GenerationRow
from ramledger.run.state import Look, Looks, RunState
from ramledger.units import MIB, format_bytes, format_delta, format_duration

TOP_ACCOUNTS = 10
TOP_LARGE = 5
TOP_CHANGES = 8
MAX_TREND_ROWS = 24
_SIZE, _GAP = 11, "  "
_WORTH_BYTES = MIB  # smaller changes are not worth a row
_WORTH_CHANGE = 0.1  # of a count
_LEAST_WIDTH, _LEAST_NAME = 60, 12
_SHORT_SECONDS = 5.0


def print_summary(state: RunState, console: Console) -> None:
    """Everything worth knowing after a run, the headline first."""
    sheet = _Sheet(console)
    _headline(sheet, state)
    kill = kernel_kill(state)
    if kill is not None:
        _killed(sheet, kill)
    elif _failed_at_once(state):
        return
    looks = state.main_looks
    if looks is not None:
        _peak(sheet, looks, state)
    _trend(sheet, state)
    if looks is not None:
        _growth(sheet, looks)
    _phases(sheet, state)
    _functions(sheet, state)
    _plan(sheet, state)
    _remarks(sheet, state)


def _failed_at_once(state: RunState) -> bool:
    """A wrong argument or a syntax error: what it held until then is of no interest."""
    has_failed = state.end is not None and bool(state.end.get("exit_code"))
    is_short = state.now_seconds < _SHORT_SECONDS
    return has_failed and is_short and not state.trend.generations(state.main_pid)


class _Sheet:
    """Prints lines that are never wrapped; strangers' text is only ever text."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = max(_LEAST_WIDTH, console.width)
        self._is_ascii = console.options.ascii_only

    def line(self, text: str = "", style: str = "") -> None:
        shown = printable(text)
        shown = in_ascii(shown) if self._is_ascii else shown
        self.console.print(
            Text(shown.rstrip(), style=style), no_wrap=True, overflow="ignore", crop=False
        )

    def paragraph(self, text: str, style: str = "", indent: str = "  ") -> None:
        for line in Text(printable(text)).wrap(self.console, self.width - len(indent)):
            self.line(indent + line.plain, style)

    def title(self, text: str) -> None:
        self.line()
        self.paragraph(text, "bold", indent="")

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Numbers to the right, the first column takes what is left; what does not fit is cut."""
        if not rows:
            return
        widths = [
            max(_SIZE if number else 0, *(cell_len(row[number]) for row in (heads, *rows)))
            for number in range(len(heads))
        ]
        while len(widths) > 2 and self._room(widths) < _LEAST_NAME:
            del widths[-1]
        name = max(_LEAST_NAME, min(widths[0], self._room(widths)))
        for row, style in ((heads, "dim"), *((row, "") for row in rows)):
            cells = [left(cut_middle(row[0], name), name)]
            cells += [right(cell, width) for cell, width in zip(row[1:], widths[1:], strict=False)]
            self.line("  " + _GAP.join(cells), style)

    def _room(self, widths: Sequence[int]) -> int:
        """Cells for the first column."""
        return self.width - 2 - sum(width + len(_GAP) for width in widths[1:])


# ---- how it ended ---------------------------------------------------------------------------


def _headline(sheet: _Sheet, state: RunState) -> None:
    command = short_command(state.command, max(20, min(60, sheet.width - 40)))
    sheet.paragraph(f"ramledger: {command} {how_it_ended(state)}", "bold", indent="")
    facts = [f"peak RSS {format_bytes(state.peak_bytes)}{_where(state.peak_where)}"]
    if state.limit is not None and state.limit.bytes:
        share = state.peak_bytes / state.limit.bytes
        facts.append(
            f"{share:.0%} of {format_bytes(state.limit.bytes)} ({printable(state.limit.source)})"
        )
    if state.peak_bytes:
        sheet.paragraph(", ".join(facts))


def how_it_ended(state: RunState) -> str:
    """`ended after 2 min with exit code 1`, `was killed by the kernel for memory …`."""
    return ending_of_state(state).text


def _where(place: tuple[int | None, str]) -> str:
    generation, phase = place
    parts = [f"in generation {generation}"] if generation is not None else []
    parts += [f"({printable(phase)})"] if phase else []
    return "".join(f" {part}" for part in parts)


def _killed(sheet: _Sheet, kill: KernelKill) -> None:
    sheet.title("the kernel killed it for memory")
    who = f"pid {kill.pid} ({short_command(kill.command, 50)})" if kill.pid else "a process"
    sheet.paragraph(f"{who} held {format_bytes(kill.resident_bytes)} when it was last seen")
    if kill.largest:
        held = ", ".join(f"{printable(name)} {format_bytes(size)}" for name, size in kill.largest)
        sheet.paragraph(f"its largest accounts: {held}")
    if kill.grew_last:
        account, grown = kill.grew_last
        sheet.paragraph(f"{printable(account)} grew last: {format_delta(grown)} {kill.grew_when}")


# ---- peak, trend, growth --------------------------------------------------------------------


def _peak(sheet: _Sheet, looks: Looks, state: RunState) -> None:
    look = looks.peak or looks.now
    statement = replace(
        look.statement,
        label="",
        limit=state.limit or look.statement.limit,
        large_objects=look.statement.large_objects[:TOP_LARGE],
    )
    sheet.title(f"statement at the peak: {_name(look)}, {format_duration(look.t)} into the run")
    missing = state.peak_bytes - statement.rss_bytes
    if len(state.alive) <= 1 and missing > 0.05 * state.peak_bytes:
        sheet.paragraph(f"RSS was up to {format_bytes(missing)} higher between two looks", "dim")
    print_statement(statement, advise(statement), top=TOP_ACCOUNTS, console=sheet.console)


def _name(look: Look) -> str:
    if look.label:
        return printable(look.label)
    if look.generation is None:
        return printable(look.phase) or f"the look at {format_duration(look.t)}"
    return f"generation {look.generation}" + (f" ({printable(look.phase)})" if look.phase else "")


def _trend(sheet: _Sheet, state: RunState) -> None:
    rows = _trend_rows(state)
    if not rows:
        return
    sheet.title("trend")
    sheet.table(("after", "RSS", "change", "peak"), rows)
    growth = state.growth_per_generation()
    if growth is not None:
        sheet.line(f"  {format_delta(round(growth))} a generation, of late")


def _trend_rows(state: RunState) -> list[tuple[str, str, str, str]]:
    """Generations spread over the run, each with its phases, and snapshots with a name."""
    points: list[tuple[float, str, int, int]] = []
    generations = state.trend.generations(state.main_pid)
    phases = max((len(row.phases) for row in generations), default=0)
    for row in _spread(generations, max(3, MAX_TREND_ROWS // max(1, phases))):
        points += _generation_points(row)
    points += [
        (item.t, printable(item.label), item.rss_bytes, 0)
        for item in state.trend.labels
        if item.pid == state.main_pid
    ]
    rows = []
    before: int | None = None
    for _, name, rss, peak in sorted(points, key=lambda point: point[0]):
        change = "baseline" if before is None else format_delta(rss - before)
        rows.append((name, format_bytes(rss), change, format_bytes(peak) if peak else ""))
        before = rss
    return rows


def _generation_points(row: GenerationRow) -> list[tuple[float, str, int, int]]:
    name = f"generation {row.generation}"
    passes = [done for done in row.phases.values() if done.after_bytes]
    if not passes:
        return [(row.t, name, row.rss_bytes, 0)]
    return [
        (row.t, f"{name}: {printable(done.name)}", done.after_bytes, done.peak_bytes)
        for done in passes
    ]


def _spread(rows: list[GenerationRow], most: int) -> list[GenerationRow]:
    if len(rows) <= most:
        return rows
    return [rows[round(at * (len(rows) - 1) / (most - 1))] for at in range(most)]


def _growth(sheet: _Sheet, looks: Looks) -> None:
    first, last = looks.baseline, looks.now
    if first is last:
        return
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
    _object_changes(sheet, first, last)


def _object_changes(sheet: _Sheet, first: Look, last: Look) -> None:
    rows = [
        (printable(name), _count(before), _count(after), f"{(after or 0) - (before or 0):+,}")
        for name, before, after in _changed_counts(first, last)[:TOP_CHANGES]
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


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _changed_counts(first: Look, last: Look) -> list[tuple[str, int | None, int | None]]:
    """Types by relative change, which tells a leaked class from the bustle of built-in types.

    Both lists hold the most numerous only: a built-in type that is missing in one is unknown
    there, while a class of somebody's module had no instance.
    """
    names = first.counts.keys() & last.counts.keys()
    names |= {name for name in last.counts.keys() - names if "." in name}
    rows = [(name, first.counts.get(name), last.counts.get(name)) for name in names]
    rows = [row for row in rows if _relative_change(row) >= _WORTH_CHANGE]
    return sorted(rows, key=lambda row: (-_relative_change(row), row[0]))


def _relative_change(row: tuple[str, int | None, int | None]) -> float:
    before, after = row[1] or 0, row[2] or 0
    return abs(after - before) / max(before, 1)


def _grown_containers(first: Look, last: Look) -> list[tuple[str, int, int]]:
    lengths = {str(item.get("path")): item.get("length") for item in first.containers}
    grown = []
    for item in last.containers:
        path, after = str(item.get("path")), item.get("length")
        before = lengths.get(path)
        if isinstance(after, int) and isinstance(before, int) and after > before:
            kind = str(item.get("type", "")).rpartition(".")[2]
            grown.append((f"{path} ({kind})", before, after))
    return sorted(grown, key=lambda row: row[1] - row[2])


# ---- phases, functions, remarks -------------------------------------------------------------


def _phases(sheet: _Sheet, state: RunState) -> None:
    totals = state.trend.phases(state.main_pid)
    if not totals:
        return
    sheet.title("phases")
    sheet.table(
        ("phase", "peak RSS", "a generation", "growth", "time", "passes"),
        [
            (
                printable(t.name), format_bytes(t.peak_bytes),
                format_delta(round(t.growth_per_generation)), format_delta(t.growth_bytes),
                format_duration(t.seconds), f"{t.count:,}",
            )
            for t in totals
        ],
    )  # fmt: skip


def _functions(sheet: _Sheet, state: RunState) -> None:
    grown = [(n, b) for n, b in state.function_growth.most_common(5) if b >= _WORTH_BYTES]
    if grown:
        sheet.title("memory appeared while these functions ran")
        sheet.table(("function", "growth"), [(printable(n), format_delta(b)) for n, b in grown])


def _plan(sheet: _Sheet, state: RunState) -> None:
    rows = graded(state)
    if rows:
        sheet.title("the plan, graded")
        cells = [
            (row.account, format_bytes(row.planned_bytes), format_bytes(row.measured_bytes),
             row.error_text, row.verdict)
            for row in rows
        ]  # fmt: skip
        sheet.table(("account", "planned", "measured", "plan is off by", ""), cells)


def _remarks(sheet: _Sheet, state: RunState) -> None:
    lines = [f"expectation broken: {broken_expectation(event)}" for event in _broken(state)]
    for event in state.pressures:
        used, limit = int(event["usage_bytes"]), int(event["limit_bytes"])
        lines.append(
            f"the limit was near: {format_bytes(used)} of {format_bytes(limit)} used, "
            f"action {printable(str(event.get('action', 'none')))}"
        )
    lines += _probe_lines(state)
    if state.failed_snapshots > 1:
        lines.append(f"{state.failed_snapshots:,} snapshots failed")
    lines += [printable(note) for note in state.notes]
    if state.malformed_events:
        lines.append(f"{state.malformed_events} malformed events were left out")
    if lines:
        sheet.title("notes")
    for line in dict.fromkeys(lines):
        sheet.paragraph(line)


def _broken(state: RunState) -> list[Mapping[str, Any]]:
    """The first and the last time for each class."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for event in state.expectations:
        found.setdefault(str(event["type"]), []).append(event)
    return [event for events in found.values() for event in (events[0], *events[1:][-1:])]


def _probe_lines(state: RunState) -> list[str]:
    """What garbage collection and trimming gave back at the end: it nearly decides the cause."""
    probe = state.probe
    if probe is None:
        return []
    before = probe["anon_bytes"] or probe.get("rss_bytes") or 0
    collected, trimmed = probe["after_collect_bytes"], probe["after_trim_bytes"]
    objects = probe["collected_objects"]
    lines = []
    if before - collected >= _WORTH_BYTES:
        given = format_bytes(before - collected)
        lines.append(f"at the end gc.collect() freed {objects:,} objects and gave back {given}")
    if collected - trimmed >= _WORTH_BYTES:
        given = format_bytes(collected - trimmed)
        lines.append(f"at the end malloc_trim(0) gave back {given}: freed before, but kept")
    return lines
