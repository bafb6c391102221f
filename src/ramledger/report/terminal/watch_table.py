"""Processes side by side in a terminal, or one line for a log.

Lines are laid out by hand: where a terminal is narrow or low, columns and processes are left out
by rank, and what is left out is summed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from ramledger.ledger import printable
from ramledger.report.terminal.text_layout import cut, in_ascii, left, right, short_command, wrapped
from ramledger.run.processes import Process
from ramledger.run.time_left import TOO_FEW, TimeLeft
from ramledger.run.watched import Check, Watch
from ramledger.units import format_bytes, format_delta, format_duration

_DOING_WIDTH = 18
_SPARK_WIDTH = 10
_LEAST_COMMAND = 16
_LEAST_ROWS = 3
_IN_ONE_LINE = 4
_HORIZON_SECONDS = 30 * 86400.0
_URGENT_SECONDS, _SOON_SECONDS = 600.0, 3600.0
_NEAR = 0.8  # of a target
_SAID_SECONDS = 60.0  # for so long an ended process is mentioned
_UNKNOWN = (None, "")  # iteration and phase of a process without an agent

Cell = tuple[str, str]  # text and style
Family = list[tuple[Process, int]]  # processes, and how deep below the first


@dataclass(frozen=True, slots=True)
class _Column:
    """`rank` 0 is always shown; of the others, those that fit, the lowest first."""

    title: str
    width: int
    rank: int
    cell: Callable[[Watch, Process], Cell]
    aligned: Callable[[str, int], str] = right


def watch_view(watch: Watch, width: int, height: int, *, is_ascii: bool = False) -> Group:
    """All processes in a table that fits the terminal, what is wrong with them, and the host."""
    families, below = _families(watch), [*_below(watch, width)]
    sums = sum(len(family) > 1 for family in families) if len(families) > 1 else 0
    borders = 4 + sums  # header, total, the rest, a blank line
    most = max(_LEAST_ROWS, height - len(below) - borders)
    columns, command = _columns(watch, width, {"trend"} if is_ascii else set())
    table = _table(watch, families, columns, command, most) if families else ()
    lines = [*table, Text(""), *below]
    for line in lines if is_ascii else ():
        line.plain = in_ascii(line.plain)
    return Group(*lines)


def one_line(watch: Watch) -> str:
    """The same for a log: the total, and the largest processes."""
    parts = [_summary("total", watch, watch.total)]
    rows = watch.rows
    if len(rows) > 1:
        shown = rows[:_IN_ONE_LINE]
    else:
        shown, parts = rows, []
    parts += [_summary(f"{row.pid} {short_command(row.command, 30)}", watch, row) for row in shown]
    if len(rows) > len(shown):
        rest = sum(row.rss_bytes for row in rows[len(shown) :])
        parts.append(f"{len(rows) - len(shown)} more {format_bytes(rest)}")
    parts += [f"target missed: {check}" for check in watch.missed()[:_IN_ONE_LINE]]
    return " | ".join(parts) if parts else "no process is left"


def ended_line(row: Process) -> str:
    """Said once about a process that is gone."""
    name = short_command(row.command, 40)
    return f"{row.pid} {name} ended; it held {format_bytes(row.rss_bytes)} last"


def _summary(name: str, watch: Watch, row: Process) -> str:
    found = watch.outlook(row)
    text = f"{name} {format_bytes(row.rss_bytes)}"
    if found.reason != TOO_FEW:
        text += f" {_per_minute(found)}/min"
    text += f" {row.threads} threads"
    if found.seconds_left is not None and found.seconds_left < _HORIZON_SECONDS:
        text += f", {_ahead(watch, row)}"
    return text


# ---- the table ------------------------------------------------------------------------------


def _table(
    watch: Watch,
    families: Sequence[Family],
    columns: Sequence[_Column],
    command: int,
    most: int,
) -> Iterator[Text]:
    header = " ".join(column.aligned(column.title, column.width) for column in columns)
    yield Text(f"{header}  {cut('command', command)}", style="dim")
    kept = {row.pid for row in watch.rows[:most]}
    for family in families:
        for row, depth in family:
            if row.pid in kept:
                indent = "  " * min(depth, command // 4)
                name = short_command(row.command, command - len(indent))
                yield _line(watch, row, columns, indent + name)
        if len(family) > 1 and len(families) > 1:
            name = f"{family[0][0].pid} and its children"
            yield _sum_line([row for row, _ in family], columns, cut(name, command))
    rest = [row for row in watch.rows if row.pid not in kept]
    if rest:
        yield _sum_line(rest, columns, cut(f"{len(rest)} smaller ones", command))
    if len(watch.rows) != 1:
        name = cut(f"{len(watch.rows)} processes", command)
        yield _line(watch, watch.total, columns, name, style="bold")


def _columns(watch: Watch, width: int, left_out: set[str]) -> tuple[list[_Column], int]:
    """Those that fit beside a command of some length, and the room for the command."""
    if not watch.total.memory.swap_bytes:
        left_out = left_out | {"swap"}
    if all(watch.run.doing.get(row.pid, _UNKNOWN) == _UNKNOWN for row in watch.rows):
        left_out = left_out | {"doing"}
    shown = {column.title for column in _COLUMNS if column.rank == 0}
    for column in sorted(_COLUMNS, key=lambda column: column.rank):
        trial = shown | {column.title} - left_out
        if _room_for_command(trial, width) >= _LEAST_COMMAND:
            shown = trial
    columns = [column for column in _COLUMNS if column.title in shown]
    return columns, max(4, _room_for_command(shown, width))


def _room_for_command(shown: set[str], width: int) -> int:
    return width - sum(c.width + 1 for c in _COLUMNS if c.title in shown) - 1


def _families(watch: Watch) -> list[Family]:
    """Parents before their children; each family by itself, that of the largest elder first."""
    rows = watch.rows
    children: dict[int, list[Process]] = {}
    for row in rows:
        children.setdefault(row.parent_pid, []).append(row)
    pids = {row.pid for row in rows}
    elders = [row for row in rows if row.parent_pid not in pids]
    families: list[Family] = []
    seen: set[int] = set()
    # pids that were used again may close a circle: whoever is left is an elder as well
    for elder in [*elders, *rows]:
        family: Family = []
        pending = [(elder, 0)]
        while pending:
            row, depth = pending.pop()
            if row.pid not in seen:
                seen.add(row.pid)
                family.append((row, depth))
                pending += [(child, depth + 1) for child in reversed(children.get(row.pid, []))]
        families += [family] if family else []
    return families


def _line(
    watch: Watch, row: Process, columns: Sequence[_Column], command: str, style: str = ""
) -> Text:
    text = Text(style=style)
    for column in columns:
        cell, cell_style = column.cell(watch, row)
        text.append(column.aligned(cell, column.width), style=cell_style).append(" ")
    return text.append(" ").append(command)


def _sum_line(rows: Sequence[Process], columns: Sequence[_Column], name: str) -> Text:
    sums = {
        "RSS": format_bytes(sum(row.rss_bytes for row in rows)),
        "threads": str(sum(row.threads for row in rows)),
    }
    cells = [column.aligned(sums.get(column.title, ""), column.width) for column in columns]
    return Text(" ".join(cells) + f"  {name}", style="dim")


def _pid(watch: Watch, row: Process) -> Cell:
    return ("total" if row is watch.total else str(row.pid)), ""


def _rss(watch: Watch, row: Process) -> Cell:
    is_total = row is watch.total
    most = watch.targets.total_bytes if is_total else watch.targets.rss_bytes
    value = watch.counted_once_bytes if is_total else row.rss_bytes
    return format_bytes(row.rss_bytes), _against(value, most)


def _threads(watch: Watch, row: Process) -> Cell:
    most = None if row is watch.total else watch.targets.threads
    return str(row.threads), _against(row.threads, most)


def _against(value: int, most: int | None) -> str:
    if most is None:
        return ""
    return "bold red" if value > most else "yellow" if value > _NEAR * most else "green"


def _growth(watch: Watch, row: Process) -> Cell:
    found = watch.outlook(row)
    return ("" if found.reason == TOO_FEW else _per_minute(found)), ""


def _per_minute(found: TimeLeft) -> str:
    growth = round(found.bytes_per_second * 60)
    return format_delta(growth) if growth else "steady"


def _trend(_: Watch, row: Process) -> Cell:
    return (row.series.sparkline(_SPARK_WIDTH) if len(row.series) > 1 else ""), ""


def _left(watch: Watch, row: Process) -> Cell:
    found = watch.outlook(row)
    seconds = found.seconds_left
    if seconds is None:
        return "", ""
    if seconds > _HORIZON_SECONDS:
        return "> 30 d", ""
    style = "red" if seconds < _URGENT_SECONDS else "yellow" if seconds < _SOON_SECONDS else ""
    return (format_duration(seconds) if seconds else "now"), style


def _doing(watch: Watch, row: Process) -> Cell:
    generation, phase = watch.run.doing.get(row.pid, _UNKNOWN)
    words = [] if generation is None else [f"gen {generation}"]
    words += [printable(phase)] if phase else []
    return cut(" · ".join(words), _DOING_WIDTH), ""


def _size(get: Callable[[Process], int | None]) -> Callable[[Watch, Process], Cell]:
    def cell(_: Watch, row: Process) -> Cell:
        size_bytes = get(row)
        return ("" if size_bytes is None else format_bytes(size_bytes)), ""

    return cell


_COLUMNS = (
    _Column("pid", 7, 0, _pid),
    _Column("RSS", 10, 0, _rss),
    _Column("anon", 10, 2, _size(lambda row: row.memory.anon_bytes)),
    _Column("file", 10, 5, _size(lambda row: row.memory.file_bytes)),
    _Column("shmem", 10, 4, _size(lambda row: row.memory.shmem_bytes)),
    _Column("PSS", 10, 3, _size(lambda row: row.pss_bytes)),
    _Column("swap", 10, 6, _size(lambda row: row.memory.swap_bytes or None)),
    _Column("threads", 7, 0, _threads),
    _Column("growth/min", 11, 0, _growth),
    _Column("trend", _SPARK_WIDTH, 1, _trend, left),
    _Column("time left", 11, 0, _left),
    _Column("doing", _DOING_WIDTH, 1, _doing, left),
)


# ---- below the table ------------------------------------------------------------------------


def _below(watch: Watch, width: int) -> Iterator[Text]:
    for text, style in (
        *((line, "") for line in _nearest(watch)),
        *_targets(watch),
        *((line, "yellow") for line in _ended(watch)),
        (_host(watch), "dim"),
    ):
        for line in wrapped(text.split(" · "), width):
            yield Text(cut(line, width), style=style)


def _nearest(watch: Watch) -> Iterator[str]:
    """In full what the column of times shortens, for the process that has the least time left."""
    rows = [row for row in watch.rows if watch.outlook(row).seconds_left is not None]
    if rows:
        row = min(rows, key=lambda row: watch.outlook(row).seconds_left or 0.0)
        if (watch.outlook(row).seconds_left or 0.0) < _HORIZON_SECONDS:
            yield f"{row.pid}: {_ahead(watch, row)}"


def _ahead(watch: Watch, row: Process) -> str:
    found, end = watch.outlook(row), watch.end_of(row)
    what = "the limit" if end is None else f"{format_bytes(end.bytes)} ({printable(end.source)})"
    if not found.seconds_left:
        return f"{what} is reached"
    text = f"{what} in {format_duration(found.seconds_left)}"
    if found.low_seconds is not None and found.high_seconds is not None:
        low, high = format_duration(found.low_seconds), format_duration(found.high_seconds)
        text += f" ({low} to {high})" if low != high else ""
    return f"{text}, {found.reason}"


def _targets(watch: Watch) -> Iterator[Cell]:
    checks = watch.checks()
    for name in dict.fromkeys(check.target for check in checks):
        missed = [check for check in checks if check.target == name and not check.is_met]
        if missed:
            yield f"target {name} missed: {_listed(missed)}", "red"
        else:
            worst = max((c for c in checks if c.target == name), key=lambda c: c.value)
            yield f"target {name} holds: {worst}", "green"


def _listed(missed: Sequence[Check]) -> str:
    shown = "; ".join(str(check) for check in missed[:_LEAST_ROWS])
    more = len(missed) - _LEAST_ROWS
    return f"{shown}; {more} more" if more > 0 else shown


def _ended(watch: Watch) -> Iterator[str]:
    since = watch.run.now_seconds - _SAID_SECONDS
    rows = [row for row in watch.run.processes.ended if (row.ended_at or 0.0) > since]
    yield from (ended_line(row) for row in rows[-_LEAST_ROWS:])
    if len(rows) > _LEAST_ROWS:
        yield f"{len(rows) - _LEAST_ROWS} more ended within the last minute"


def _host(watch: Watch) -> str:
    parts = []
    if watch.total.pss_bytes is not None and len(watch.rows) > 1:
        parts.append(f"shared pages counted once: {format_bytes(watch.counted_once_bytes)}")
    if watch.total.limit is not None and watch.total.headroom_bytes is not None:
        limit = watch.total.limit
        room = format_bytes(max(0, watch.total.headroom_bytes))
        parts.append(f"{room} left of {format_bytes(limit.bytes)} ({printable(limit.source)})")
    if watch.run.available_bytes is not None and (
        watch.total.limit is None or watch.total.limit.source != "host RAM"
    ):
        parts.append(f"host has {format_bytes(watch.run.available_bytes)} available")
    if watch.run.shm_bytes:
        parts.append(f"/dev/shm holds {format_bytes(watch.run.shm_bytes)}")
    return " · ".join(parts)
