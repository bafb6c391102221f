"""Statements in a terminal or a log file, through rich."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ramledger.diagnose.advice import Advice, explain_threads
from ramledger.ledger import Entry, Statement
from ramledger.units import format_bytes, format_duration

_BAR_WIDTH = 12


def print_statement(
    statement: Statement,
    advice: Sequence[Advice] = (),
    *,
    top: int = 20,
    console: Console | None = None,
) -> None:
    """Header, table, large objects, then why and what to do."""
    console = console or Console()
    console.print(_header(statement))
    console.print(_accounts(statement, top))
    console.print(_coverage(statement))
    for note in statement.notes:
        console.print(Text(f"  note: {note}", style="yellow"))
    if statement.large_objects:
        console.print(_large_objects(statement, top))
    if statement.children:
        console.print(_children(statement, top))
    _print_advice(statement, advice, console)


def _header(statement: Statement) -> Text:
    title = Text(statement.command, style="bold")
    title.append(f"  pid {statement.pid}", style="dim")
    facts = [
        f"RSS {format_bytes(statement.rss_bytes)}",
        f"PSS {format_bytes(statement.pss_bytes)}",
        f"virtual {format_bytes(statement.vms_bytes)}",
        f"{statement.threads} threads",
        f"up {format_duration(statement.uptime_seconds)}",
    ]
    if statement.swap_bytes:
        facts.insert(1, f"swap {format_bytes(statement.swap_bytes)}")
    if statement.limit:
        share = statement.rss_bytes / statement.limit.bytes if statement.limit.bytes else 0
        limit = f"limit {format_bytes(statement.limit.bytes)}"
        facts.append(f"{limit} ({statement.limit.source}), {share:.0%} used")
    return title.append("\n" + " · ".join(facts))


def _accounts(statement: Statement, top: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", show_footer=True)
    table.add_column("account", footer="RSS", overflow="fold")
    table.add_column("resident", footer=format_bytes(statement.rss_bytes), justify="right")
    table.add_column("share", footer="100.0%", justify="right")
    table.add_column("", no_wrap=True)
    table.add_column("reserved", justify="right")
    table.add_column("note", overflow="fold")
    shown = [e for e in statement.entries if e.resident_bytes][:top]
    for entry in shown:
        _add_row(table, statement, entry.account, entry.resident_bytes, entry)
    rest = [e for e in statement.entries if e not in shown]
    rest_bytes = sum(e.resident_bytes for e in rest)
    if rest_bytes:
        _add_row(table, statement, f"{len(rest)} smaller accounts", rest_bytes, None)
    _add_row(table, statement, "unexplained", statement.unexplained_bytes, None)
    return table


def _add_row(
    table: Table, statement: Statement, account: str, resident: int, entry: Entry | None
) -> None:
    share = resident / statement.rss_bytes if statement.rss_bytes else 0
    bar = "█" * round(share * _BAR_WIDTH)
    reserved = note = ""
    if entry is not None:
        reserved = format_bytes(entry.reserved_bytes)
        note = _note(entry)
    style = "yellow" if account == "unexplained" and share > 0.05 else None
    table.add_row(
        Text(account), format_bytes(resident), f"{share:.1%}", bar, reserved, Text(note),
        style=style,
    )  # fmt: skip


def _note(entry: Entry) -> str:
    parts = []
    if entry.fill is not None:
        parts.append(f"{entry.fill:.0%} filled")
    if entry.note:
        parts.append(entry.note)
    return ", ".join(parts)


def _coverage(statement: Statement) -> Text:
    text = f"named {statement.named_fraction:.1%}, owned {statement.owned_fraction:.1%} of RSS"
    if not statement.inside:
        text += "; seen from outside, --inside names the owners"
    return Text(text, style="dim")


def _large_objects(statement: Statement, top: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.title = "\nlarge objects"
    for name in ("held by", "type", "shape"):
        table.add_column(name, overflow="fold")
    for name in ("resident", "reserved", "full"):
        table.add_column(name, justify="right")
    for item in statement.large_objects[: min(top, 20)]:
        shape = "×".join(map(str, item.shape))
        table.add_row(
            Text(item.path),
            Text(f"{item.type.rpartition('.')[2]} {item.dtype}"),
            shape,
            format_bytes(item.resident_bytes),
            format_bytes(item.reserved_bytes),
            f"{item.fill:.0%}" if item.fill is not None else "",
        )
    return table


def _children(statement: Statement, top: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.title = "\nprocess tree (PSS counts shared pages once)"
    table.add_column("pid", justify="right")
    for name in ("RSS", "PSS", "USS"):
        table.add_column(name, justify="right")
    table.add_column("threads", justify="right")
    table.add_column("command", overflow="ellipsis", no_wrap=True)
    family = [statement, *sorted(statement.children, key=lambda c: -c.pss_bytes)]
    for member in family[: top + 1]:
        _add_process(table, str(member.pid), [member], Text(member.command))
    if len(family) > top + 1:
        others = family[top + 1 :]
        _add_process(table, "", others, Text(f"{len(others)} more processes"))
    _add_process(table, "total", family, Text(""))
    return table


def _add_process(table: Table, pid: str, members: Sequence[Statement], command: Text) -> None:
    table.add_row(
        pid,
        format_bytes(sum(m.rss_bytes for m in members)),
        format_bytes(sum(m.pss_bytes for m in members)),
        format_bytes(sum(m.uss_bytes for m in members)),
        str(sum(m.threads for m in members)),
        command,
    )


def _print_advice(statement: Statement, advice: Sequence[Advice], console: Console) -> None:
    threads = explain_threads(statement)
    if not advice and not threads:
        return
    console.print(Text("\nwhy, and what to do", style="bold"))
    for number, item in enumerate(advice, 1):
        console.print(Text(f" {number}. {item.title} (saves {format_bytes(item.saves_bytes)})"))
        console.print(Text(f"    {item.why}"))
        console.print(Text(f"    {item.do}", style="cyan"))
    if threads:
        console.print(Text(f" · {threads}"))
