"""The live view of a run: statement with sparklines, limit, growth, time left, phases, children.

It separates this run from the machine that it runs on.

Lines are laid out by hand, so that none wraps at 80 columns and the important ones stay at 60.
"""

from collections.abc import Iterator, Sequence

from rich.text import Text

from ramledger.diagnose.live_judge import Judgement
from ramledger.events import ExpectationEvent
from ramledger.ledger import Entry, Limit, Statement, printable
from ramledger.report.terminal.growth_words import (
    growing_text,
    leak_warning,
    machine_text,
    outlook_text,
    pressure_text,
)
from ramledger.report.terminal.text_layout import (
    bar,
    cut,
    cut_middle,
    left,
    right,
    short_command,
    whole_phrases,
)
from ramledger.run.iterations import PhaseTotal
from ramledger.run.model import Run
from ramledger.run.processes import Process
from ramledger.run.snapshots import UNEXPLAINED, ProcessSnapshots, account_totals
from ramledger.units import format_bytes, format_delta, format_duration

LEAST_WIDTH, LEAST_HEIGHT = 40, 3
USUAL_HEIGHT = 18

_SIZE, _GAP = 10, "  "
_MOST_ACCOUNTS, _MOST_PHASES, _MOST_PROCESSES = 12, 5, 4
_LEAST_BAR, _WIDE = 8, 72
_WARM, _HOT = 0.75, 0.9  # shares of a limit
_URGENT_SECONDS, _SOON_SECONDS = 600.0, 3600.0
_NO_PARTS = {False: "no limit", True: "growth is not judged yet"}
_NOTICEABLE = 0.005  # of RSS: what is smaller waits for the full statement

Line = Text


def live_lines(
    run: Run, width: int, height: int = USUAL_HEIGHT, now: Judgement | None = None
) -> list[Line]:
    """At most `height` lines of at most `width` cells; with less room, less is shown."""
    width, height = max(LEAST_WIDTH, width), max(LEAST_HEIGHT, height)
    now = now or Judgement()
    lines = [_title(run, width), _level(run, width), _outlook(run, now, width)]
    alert = _alert(run, now, width)
    if alert is not None and height > len(lines):
        lines.append(alert)
    room = height - len(lines)
    children = _children(run, width, room)
    phases = _phases(run, width, room - len(children))
    snapshots = run.main_snapshots
    if snapshots is not None:
        lines += _accounts(snapshots, run, width, room - len(children) - len(phases))
    return [*lines, *phases, *children][:height]


# ---- the three lines that are always there --------------------------------------------------


def _title(run: Run, width: int) -> Line:
    parts = [format_duration(run.now_seconds)]
    generation, phase = run.now
    if phase:
        parts.insert(0, cut(printable(phase), 24))
    if generation is not None:
        parts.insert(0, iteration_text(run, generation))
    where = " · ".join(parts)
    command = short_command(run.command, max(8, width - len(where) - 21))
    text = Text("── ", style="dim").append("ramledger", style="bold").append(" · ")
    text.append(command).append(" ")
    text.append("─" * max(1, width - text.cell_len - len(where) - 4), style="dim")
    return _cropped(text.append(f" {where} ", style="bold").append("──", style="dim"), width)


def iteration_text(run: Run, number: int) -> str:
    """`iteration 3 of 30, step 6,144 of 61,440`, as far as the ends are known."""
    planned = run.planned
    text = f"iteration {number}"
    if planned.last_iteration is not None and planned.last_iteration >= number:
        text += f" of {planned.last_iteration}"
    if planned.steps is not None:
        text += f", step {planned.steps:,}"
        if planned.last_step is not None and planned.last_step >= planned.steps:
            text += f" of {planned.last_step:,}"
    return text


def _level(run: Run, width: int) -> Line:
    """`run 74.0 MiB (limit 23.5 GiB, host RAM)`, how much of it that is, and the peak."""
    alive = len(run.alive)
    text = Text("run ").append(format_bytes(run.tree.last), style="bold")
    if alive > 1 and width >= _WIDE:
        text.append(f" in {alive} processes")
    limit = run.limit
    peak = f" · peak {format_bytes(run.peak_bytes)}" + _fullness(run, limit, width)
    if limit is None or not limit.bytes:
        return _cropped(text.append(peak).append(_trend_of_tree(run, width - 50)), width)
    share = run.tree.last / limit.bytes
    label = f" {share:.0%}"
    size = f" (limit {format_bytes(limit.bytes)}"
    room = width - text.cell_len - len(size) - len(label) - len(peak) - 3 - _LEAST_BAR
    source = f", {printable(limit.source)}"
    text.append(size).append(cut(source, room) if room > 8 else "").append(")")
    free = width - text.cell_len - len(label) - len(peak) - 2
    style = "red" if share >= _HOT else "yellow" if share >= _WARM else "green"
    cells = max(4, min(24, free))
    text.append("  ").append(bar(share, cells), style=f"{style} on grey23").append(label)
    return _cropped(text.append(peak), width)


def _fullness(run: Run, limit: Limit | None, width: int) -> str:
    """` · machine 65% full`: what this run shares its limit with, where there is room to say it."""
    if limit is None or not limit.bytes or width < _WIDE or not len(run.used):
        return ""
    where = "machine" if limit.source == "host RAM" else "container"
    is_shared = limit.source == "host RAM" or "cgroup" in limit.source
    return f" · {where} {run.used.last / limit.bytes:.0%} full" if is_shared else ""


def _trend_of_tree(run: Run, width: int) -> str:
    return "  " + run.tree.sparkline(min(24, width)) if width >= 8 and len(run.tree) > 1 else ""


def _outlook(run: Run, now: Judgement, width: int) -> Line:
    """What grows, what other programs do to the machine, and how long this run has."""
    parts = []
    left = now.run_left
    seconds = None if left is None else left.seconds_left
    if now.growing is not None:
        parts.append(growing_text(now.growing))
    if run.limit is not None:
        parts += machine_parts(run, now, run.limit)
    ahead = outlook_text(run, now)
    if ahead:
        parts.append(ahead)
    elif left is not None and not parts:
        parts.append(printable(left.reason))
    is_urgent = seconds is not None and seconds < _URGENT_SECONDS
    text = " · ".join(parts) or _NO_PARTS[run.has_limit]
    return Text(whole_phrases(text, width), style="red" * is_urgent)


def machine_parts(run: Run, now: Judgement, limit: Limit) -> Iterator[str]:
    """A word on it only where other programs fill it."""
    found = now.machine_left
    others = run.used.last - run.own.last
    if found is not None and (found.seconds_left or 0.0) < _SOON_SECONDS:
        yield machine_text(found, limit)
    elif run.used.last >= _HOT * limit.bytes and others > run.own.last:
        yield f"machine {run.used.last / limit.bytes:.0%} full: others hold {format_bytes(others)}"


def _alert(run: Run, now: Judgement, width: int) -> Line | None:
    """The most urgent message, if there is one."""
    if run.pressures:
        text = f"! {pressure_text(run.pressures[-1])}"
        return Text(whole_phrases(text, width), style="bold red")
    if now.leak is not None:
        return Text(whole_phrases(f"! {leak_warning(now.leak)}", width), style="bold red")
    if run.expectations:
        return Text(cut(f"! {broken_expectation(run.expectations[-1])}", width), style="yellow")
    if run.notes:
        return Text(cut(f"note: {printable(run.notes[-1])}", width), style="yellow")
    return None


def broken_expectation(event: ExpectationEvent) -> str:
    """`18 Env instead of 2 in iteration 1 (evaluate), held by trainer.envs`."""
    text = f"{event.found} {event.type} instead of {event.expected}"
    if event.generation is not None:
        text += f" in iteration {event.generation}"
    if event.phase:
        text += f" ({event.phase})"
    if event.paths:
        text += f", held by {', '.join(list(dict.fromkeys(event.paths))[:2])}"
    return printable(text)


# ---- accounts -------------------------------------------------------------------------------


def _accounts(snapshots: ProcessSnapshots, run: Run, width: int, room: int) -> list[Line]:
    """The accounts as of the latest snapshot, with their history since the first."""
    if room < 2:
        return []
    latest = snapshots.now
    statement = latest.statement
    layout = _Layout(width, any(entry.fill is not None for entry in statement.entries))
    rows = list(_rows(statement, min(room - 1, _MOST_ACCOUNTS)))
    age = max(0.0, run.now_seconds - latest.t)
    lines = [layout.header(_title_of_accounts(age, layout.account))]
    baseline = snapshots.baseline
    before = None if latest is baseline else account_totals(baseline.statement)
    for name, resident, entry in rows:
        history = snapshots.accounts.get(name)
        lines.append(
            layout.row(
                printable(name),
                resident,
                resident / statement.rss_bytes if statement.rss_bytes else 0.0,
                history.sparkline(layout.spark) if history and len(history) > 1 else "",
                resident - before.get(name, 0) if before is not None and history else None,
                entry.fill if entry is not None else None,
            )
        )
    return lines


def _title_of_accounts(age_seconds: float, width: int) -> str:
    if age_seconds < 2:
        return "account"
    age = f"{format_duration(age_seconds)} ago"
    title = f"account (measured {age})"
    return title if len(title) <= width else f"account, {age}"


def _rows(statement: Statement, most: int) -> Iterator[tuple[str, int, Entry | None]]:
    """The largest accounts, then the rest as one, then what is unexplained."""
    unexplained = statement.unexplained_bytes
    shows_unexplained = unexplained > _NOTICEABLE * statement.rss_bytes
    most -= shows_unexplained
    entries = sorted(statement.entries, key=lambda entry: -entry.resident_bytes)
    entries = [entry for entry in entries if entry.resident_bytes]
    large = sum(entry.resident_bytes > _NOTICEABLE * statement.rss_bytes for entry in entries)
    most = min(most, max(4, large + 1))
    shown = entries if len(entries) <= most else entries[: max(0, most - 1)]
    for entry in shown:
        yield entry.account, entry.resident_bytes, entry
    rest = entries[len(shown) :]
    if rest and most > 0:
        yield f"{len(rest)} smaller accounts", sum(entry.resident_bytes for entry in rest), None
    if shows_unexplained:
        yield UNEXPLAINED, unexplained, None


class _Layout:
    """Columns of the accounts for a width."""

    def __init__(self, width: int, has_fill: bool) -> None:
        self.share = 6 if width >= 72 else 0
        self.fill = 8 if has_fill and width >= 66 else 0
        fixed = 2 * (_SIZE + 2) + (self.share + 2 if self.share else 0)
        fixed += self.fill + 2 if self.fill else 0
        self.spark = max(6, min(20, width - fixed - 28)) if width >= 50 else 0
        self.account = max(10, min(48, width - fixed - self.spark - 2 * bool(self.spark)))

    def header(self, title: str) -> Line:
        cells = [left(cut(title, self.account), self.account), right("resident", _SIZE)]
        cells += [right("share", self.share)] if self.share else []
        cells += [left("history", self.spark)] if self.spark else []
        cells.append(right("change", _SIZE))
        return Text(_GAP.join(cells).rstrip(), style="dim")

    def row(
        self,
        account: str,
        resident: int,
        share: float,
        spark: str,
        growth: int | None,
        fill: float | None,
    ) -> Line:
        text = Text(left(cut_middle(account, self.account), self.account))
        text.append(_GAP + right(format_bytes(resident), _SIZE))
        if self.share:
            text.append(_GAP + right(f"{share:.1%}", self.share))
        if self.spark:
            text.append(_GAP).append(left(spark, self.spark), style="cyan")
        grown = "" if growth is None else format_delta(growth)
        text.append(_GAP + right(grown, _SIZE), style="yellow" if growth and growth > 0 else "")
        if self.fill and fill is not None:
            text.append(_GAP + f"{fill:.0%} full", style="dim")
        text.rstrip()
        return text


# ---- phases and children --------------------------------------------------------------------


def _phases(run: Run, width: int, room: int) -> list[Line]:
    totals = run.iterations.phases(run.main_pid)
    if not totals or room < 4:
        return []
    rows = totals[: min(_MOST_PHASES, max(1, (room - 2) // 3))]
    heads = ("an iter.", "peak", "growth", "time")[: 4 if width >= 60 else 2]
    name = max(10, min(28, width - len(heads) * (_SIZE + 2)))
    cells = [left("phase", name), *(right(head, _SIZE) for head in heads)]
    lines = [Text(_GAP.join(cells), style="dim")]
    return lines + [_phase(total, name, len(heads), total.name == run.now[1]) for total in rows]


def _phase(total: PhaseTotal, name: int, columns: int, is_now: bool) -> Line:
    text = Text(left(cut(printable(total.name), name), name), style="bold" if is_now else "")
    cells = (
        format_delta(round(total.growth_per_iteration)),
        format_bytes(total.peak_bytes),
        format_delta(total.growth_bytes),
        format_duration(total.seconds),
    )
    return text.append("".join(_GAP + right(cell, _SIZE) for cell in cells[:columns]))


def _children(run: Run, width: int, room: int) -> list[Line]:
    """Other processes of the tree: a few rows, or one line where there is little room."""
    main = run.main_pid
    others = [row for row in run.alive if row.pid != main or run.main_snapshots is None]
    if not others or room < 1:
        return []
    total = sum(row.rss_bytes for row in others)
    if room < 8:
        largest = others[0]
        text = f"{len(others)} more processes: {format_bytes(total)}, pid {largest.pid} "
        return [Text(cut(text + format_bytes(largest.rss_bytes), width), style="dim")]
    shown = others if len(others) <= _MOST_PROCESSES else others[: _MOST_PROCESSES - 1]
    head = f"{'pid':>8}{_GAP}{'RSS':>{_SIZE}}{_GAP}{'threads':>7}{_GAP}process"
    lines = [Text(head, style="dim")]
    lines += [_process(row, width) for row in shown]
    rest = others[len(shown) :]
    if rest:
        lines.append(Text(_process_cells("", rest) + f"{len(rest)} more processes"))
    return lines


def _process(row: Process, width: int) -> Line:
    cells = _process_cells(str(row.pid), [row])
    return Text(cells + short_command(row.command, max(8, width - len(cells))))


def _process_cells(pid: str, rows: Sequence[Process]) -> str:
    size = format_bytes(sum(row.rss_bytes for row in rows))
    threads = sum(row.threads for row in rows)
    return f"{pid:>8}{_GAP}{size:>{_SIZE}}{_GAP}{threads:>7}{_GAP}"


def _cropped(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text
