"""Statements in a terminal or a log file, through rich: laid out so that no row wraps.

What comes from the process (its command, paths, names) is only ever text: no markup, no escape.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ramledger.diagnose.advice import Advice, remedy_command, worth_bytes
from ramledger.ledger import Entry, LargeObject, Source, Statement, TypeCount, printable
from ramledger.report.object_rows import listed_objects
from ramledger.report.terminal.text_layout import (
    bar,
    cut,
    cut_middle,
    in_ascii,
    left,
    right,
    short_command,
    wrapped,
)
from ramledger.units import KIB, MIB, format_bytes, format_duration

LOG_WIDTH = 120  # where there is no terminal to ask

_SIZE, _SHARE, _BAR, _GAP = 10, 6, 8, "  "
_LEAST_WIDTH, _NARROW, _WIDE = 40, 72, 100
_LEAST_ACCOUNT, _LEAST_NOTE = 32, 20
_TINY, _TINY_BYTES = 0.0005, 16 * KIB  # what prints as 0.0%, or is a few pages
_WORTH_RESERVING = 64 * MIB
_WORTH_A_SIZE = 64 * KIB  # of all objects of a type: their own, without what they hold
_OWN_DATA = (Source.CLAIM, Source.RECOGNIZED, Source.PATH, Source.STACK, Source.SHARED_MEMORY)
_FULL = 0.9  # of a limit
_FAMILIES = 5


def open_console() -> Console:
    """The console on stdout; in a log, wide enough for nearly everything."""
    if os.environ.get("COLUMNS") or any(map(os.isatty, (0, 1, 2))):
        return Console()
    return Console(width=LOG_WIDTH)


def print_statement(
    statement: Statement,
    advice: Sequence[Advice] = (),
    remarks: Sequence[str] = (),
    *,
    top: int = 20,
    console: Console | None = None,
) -> None:
    """Header, table, large objects, process tree, then why and what to do."""
    page = _Page(console or open_console())
    _header(page, statement)
    if statement.rss_bytes:
        _accounts(page, statement, top)
        _coverage(page, statement)
        _live_objects(page, listed_objects(statement))
        _large_objects(page, statement.large_objects[:top])
    else:
        kind = str(statement.facts.get("kind", "process")).replace("-", " ")
        page.paragraph(f"a {kind}: it has no memory of its own")
    if statement.children:
        _tree(page, statement, top)
    if statement.rss_bytes:
        _advice(page, statement, advice, remarks)


class _Page:
    """Prints lines of known width; in ASCII where the stream supports nothing else."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = max(_LEAST_WIDTH, console.width)
        self._is_ascii = console.options.ascii_only

    def line(self, *parts: str | tuple[str, str]) -> None:
        """One line of text or (text, style) parts, never wrapped."""
        text = Text.assemble(*map(_shown, parts))
        text.rstrip()
        if self._is_ascii:
            text.plain = in_ascii(text.plain)
        self.console.print(text, no_wrap=True, overflow="ignore", crop=False)

    def paragraph(self, text: str, style: str = "", indent: int = 0, lead: str = "") -> None:
        """Wrapped text; `lead` stands in the indentation of its first line."""
        for line in Text(printable(text)).wrap(self.console, self.width - indent):
            self.line(right(lead, indent), (line.plain, style))
            lead = ""


def _shown(part: str | tuple[str, str]) -> str | tuple[str, str]:
    """The last check: no control character leaves this module."""
    return printable(part) if isinstance(part, str) else (printable(part[0]), part[1])


def _header(page: _Page, statement: Statement) -> None:
    pid = f"{_GAP}pid {statement.pid}"
    label = f"{printable(statement.label)}: " if statement.label else ""
    command = short_command(statement.command, page.width - len(pid) - cell_len(label))
    page.line((label + command, "bold"), (pid, "dim"))
    facts = [
        f"RSS {format_bytes(statement.rss_bytes)}",
        f"virtual {format_bytes(statement.vms_bytes)}",
        _counted(statement.threads, "thread"),
        f"up {format_duration(statement.uptime_seconds)}",
    ]
    if statement.swap_bytes:
        facts.insert(1, f"swap {format_bytes(statement.swap_bytes)}")
    limit = statement.limit
    if limit is not None and limit.bytes:
        share = f"{statement.rss_bytes / limit.bytes:.0%}"
        facts.append(f"{share} of limit {format_bytes(limit.bytes)} ({limit.source})")
    is_full = limit is not None and statement.rss_bytes > _FULL * limit.bytes
    for line in wrapped(facts, page.width):
        page.line((line, "bold red" if is_full else ""))


# ---- the table of accounts ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    account: str
    resident_bytes: int
    reserved_bytes: int | None = None
    note: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Widths in cells; a note that has no column of its own stands below its row."""

    account: int
    note: int
    has_bar: bool
    has_reserved: bool


def _accounts(page: _Page, statement: Statement, top: int) -> None:
    has_reserved = page.width >= _NARROW
    rows = _rows(statement, top, has_reserved)
    columns = _columns(rows, page.width, has_reserved)
    page.line()
    page.line(
        (left("account", columns.account), "dim"),
        (_GAP + right("resident", _SIZE) + _GAP + right("share", _SHARE), "dim"),
        _GAP + " " * _BAR if columns.has_bar else "",
        (_GAP + right("reserved", _SIZE) if has_reserved else "", "dim"),
        (f"{_GAP}note" if columns.note else "", "dim"),
    )
    for row in rows:
        _print_row(page, row, columns, statement.rss_bytes)
    total = left("RSS", columns.account) + _GAP + right(format_bytes(statement.rss_bytes), _SIZE)
    page.line((f"{total}{_GAP}{right('100.0%', _SHARE)}", "bold"))


def _rows(statement: Statement, top: int, has_reserved: bool) -> list[_Row]:
    """The largest accounts, what the others sum to, and what nothing explains: together RSS."""
    shown = [entry for entry in statement.entries if _is_worth_a_row(entry, statement)][:top]
    shown_ids = set(map(id, shown))
    rest = [entry for entry in statement.entries if id(entry) not in shown_ids]
    rows = [
        _Row(printable(e.account), e.resident_bytes, e.reserved_bytes, _note(e, has_reserved))
        for e in shown
    ]
    rest_bytes = sum(entry.resident_bytes for entry in rest)
    if rest_bytes:
        rows.append(_Row(_counted(len(rest), "smaller account"), rest_bytes, style="dim"))
    unexplained = statement.unexplained_bytes
    style = "yellow" if unexplained > 0.05 * statement.rss_bytes else "dim"
    rows.append(_Row("unexplained", unexplained, style=style))
    return rows


def _is_worth_a_row(entry: Entry, statement: Statement) -> bool:
    if entry.resident_bytes >= max(_TINY_BYTES, _TINY * statement.rss_bytes):
        return True
    return entry.source in _OWN_DATA and entry.reserved_bytes >= _WORTH_RESERVING


def _columns(rows: Sequence[_Row], width: int, has_reserved: bool) -> _Columns:
    has_bar = width >= _WIDE
    taken = [_SIZE, _SHARE, *[_SIZE] * has_reserved, *[_BAR] * has_bar]
    room = width - sum(taken) - len(taken) * len(_GAP)
    account = max(cell_len(row.account) for row in rows)
    note = max(cell_len(row.note) for row in rows)
    spared = room - len(_GAP) - note  # what is left for accounts if every note is whole
    if note and account > spared:
        shorter = max(min(account, _LEAST_ACCOUNT), spared)
        if room - len(_GAP) - shorter < min(note, _LEAST_NOTE):
            return _Columns(min(account, room), 0, has_bar, has_reserved)
        account = shorter
    account = min(account, room)
    note = min(note, room - len(_GAP) - account) if note else 0
    return _Columns(account, note, has_bar, has_reserved)


def _print_row(page: _Page, row: _Row, columns: _Columns, rss_bytes: int) -> None:
    share = row.resident_bytes / rss_bytes
    family, slash, below = cut_middle(row.account, columns.account).partition("/")
    padding = " " * (columns.account - cell_len(family + slash + below))
    reserved = "" if row.reserved_bytes is None else format_bytes(row.reserved_bytes)
    page.line(
        (family + slash, row.style or ("dim" if slash else "")),
        (below + padding, row.style),
        (_GAP + right(format_bytes(row.resident_bytes), _SIZE), row.style),
        (_GAP + right(f"{share:.1%}", _SHARE), row.style),
        (_GAP + bar(share, _BAR) if columns.has_bar else "", "cyan"),
        (_GAP + right(reserved, _SIZE) if columns.has_reserved else "", "dim"),
        (_GAP + cut(row.note, columns.note) if columns.note else "", "dim"),
    )
    if row.note and not columns.note:
        page.line((f"{_GAP}{cut(row.note, page.width - len(_GAP))}", "dim"))


def _note(entry: Entry, has_reserved: bool) -> str:
    parts = [f"{entry.fill:.0%} filled"] if entry.fill is not None else []
    if not has_reserved and entry.reserved_bytes > entry.resident_bytes + MIB:
        parts.insert(0, f"of {format_bytes(entry.reserved_bytes)} reserved")
    if entry.note:
        parts.append(printable(entry.note))
    return ", ".join(parts)


def _coverage(page: _Page, statement: Statement) -> None:
    shares = {"named": statement.named_fraction, "owned": statement.owned_fraction}
    calibrated = [e.resident_bytes for e in statement.entries if e.source is Source.CALIBRATED]
    if calibrated:
        shares["calibrated"] = sum(calibrated) / statement.rss_bytes
    text = ", ".join(f"{name} {share:.1%}" for name, share in shares.items()) + " of RSS"
    if not statement.inside and statement.facts.get("kind") == "python":
        text += "; seen from outside: --inside names the objects that own the rest"
    for line in wrapped(_families(statement), page.width):
        page.line((line, "dim"))
    page.paragraph(text, "dim")
    for note in statement.notes:
        page.paragraph(note, "dim", indent=6, lead="note: ")


def _families(statement: Statement) -> list[str]:
    """What the largest families sum to, where several accounts of one are in the table."""
    totals: dict[str, list[int]] = {}
    for entry in statement.entries:
        family, below, _ = entry.account.partition("/")
        if below:
            totals.setdefault(family, []).append(entry.resident_bytes)
    sums = {printable(family): sum(sizes) for family, sizes in totals.items() if len(sizes) > 1}
    largest = sorted(sums, key=lambda family: -sums[family])[:_FAMILIES]
    parts = [
        f"{family}/* {format_bytes(sums[family])}"
        for family in largest
        if sums[family] >= 0.01 * statement.rss_bytes
    ]
    return [f"together: {parts[0]}", *parts[1:]] if parts else []


# ---- objects and the process tree --------------------------------------------------------------


def _live_objects(page: _Page, rows: Sequence[TypeCount]) -> None:
    if not rows:
        return
    page.line()
    page.line(("live objects", "bold"), (" (yours and known ones first)", "dim"))
    names = [printable(row.type).removeprefix("__main__.") for row in rows]
    room = page.width - 2 * len(_GAP) - 2 * _SIZE
    width = min(room, max(map(cell_len, names)))
    for name, row in zip(names, rows, strict=True):
        size = format_bytes(row.bytes) if row.bytes >= _WORTH_A_SIZE else ""
        page.line(
            _GAP + left(cut_middle(name, width), width),
            right(f"{row.count:,}", _SIZE),
            (_GAP + right(size, _SIZE), "dim"),
        )


def _large_objects(page: _Page, objects: Sequence[LargeObject]) -> None:
    if not objects:
        return
    page.line()
    page.line(("large objects", "bold"), (" (resident of reserved)", "dim"))
    for item in objects:
        sizes = f"{format_bytes(item.resident_bytes)} of {format_bytes(item.reserved_bytes)}"
        if item.fill is not None:
            sizes += f", {item.fill:.0%} full"
        kind = printable(f"{item.type.rpartition('.')[2]} {_dtype_and_shape(item)}".rstrip())
        if item.shared_with:
            kind += f", also held by {printable(', '.join(item.shared_with))}"
        path = printable(item.path)
        page.line(_GAP + cut_middle(path, page.width - len(_GAP)))
        page.line((f"{_GAP * 2}{cut(f'{sizes} · {kind}', page.width - 4)}", "dim"))


def _dtype_and_shape(item: LargeObject) -> str:
    shape = "×".join(map(str, item.shape))
    return f"{item.dtype} {shape}".strip()


_PROCESS = (7, _SIZE, _SIZE, _SIZE, 7)  # pid, RSS, PSS, USS, threads


def _tree(page: _Page, statement: Statement, top: int) -> None:
    family = [statement, *sorted(statement.children, key=lambda child: -child.pss_bytes)]
    page.line()
    page.line(("process tree", "bold"), (" (PSS: shared pages once)", "dim"))
    heads = ("pid", "RSS", "PSS", "own", "threads")
    page.line((_cells(page, heads) + f"{_GAP}command", "dim"))
    for member in family[: top + 1]:
        _process(page, str(member.pid), [member], member.command)
    others = family[top + 1 :]
    if others:
        _process(page, "", others, f"{len(others)} more")
    total = _process(page, "total", family, "", style="bold")
    if statement.limit and statement.limit.bytes:
        share = total / statement.limit.bytes
        page.line((f"the tree uses {share:.0%} of {format_bytes(statement.limit.bytes)}", "dim"))


def _process(
    page: _Page, pid: str, members: Sequence[Statement], command: str, style: str = ""
) -> int:
    pss_bytes = sum(member.pss_bytes for member in members)
    cells = _cells(
        page,
        (
            pid,
            format_bytes(sum(member.rss_bytes for member in members)),
            format_bytes(pss_bytes),
            format_bytes(sum(member.uss_bytes for member in members)),
            str(sum(member.threads for member in members)),
        ),
    )
    page.line((cells, style), _GAP + short_command(command, page.width - len(cells) - len(_GAP)))
    return pss_bytes


def _cells(page: _Page, texts: Sequence[str]) -> str:
    """Right-aligned columns; on a narrow page RSS and threads are left out."""
    chosen = [
        right(text, width)
        for number, (text, width) in enumerate(zip(texts, _PROCESS, strict=True))
        if page.width >= 80 or number not in (1, 4)
    ]
    return _GAP.join(chosen)


# ---- why, and what to do -----------------------------------------------------------------------


def _advice(
    page: _Page, statement: Statement, advice: Sequence[Advice], remarks: Sequence[str]
) -> None:
    page.line()
    page.line(("why, and what to do", "bold"))
    for number, item in enumerate(advice, 1):
        up_to = "up to " if item.at_most else ""
        page.paragraph(
            f"{item.title}: saves {up_to}{format_bytes(item.saves_bytes)}",
            "bold",
            indent=4,
            lead=f"{number}. ",
        )
        page.paragraph(item.why, indent=4)
        if item.apply:
            step = printable(remedy_command(item.apply, statement.command))
            page.paragraph(step, "cyan", indent=6, lead="→ ")
        for step in item.do:
            page.paragraph(step, "cyan", indent=6, lead="→ ")
    if not advice:
        where = "" if statement.inside else " from outside"
        worth = format_bytes(worth_bytes(statement))
        page.paragraph(f"nothing is seen{where} that would save {worth} or more", "dim", indent=4)
    for remark in remarks:
        page.paragraph(remark, indent=4, lead="· ")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
