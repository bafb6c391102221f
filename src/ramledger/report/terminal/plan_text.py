"""A budget in the terminal: the verdict, the rows with their formulas, checks, what to change."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ramledger.diagnose.advice import remedy_command
from ramledger.ledger import printable
from ramledger.plan.budget import Budget, Room, Row, Severity, Span, Where, row_changes
from ramledger.units import format_bytes, format_delta, format_duration

_VERDICT_STYLES = {"fits": "bold green", "tight": "bold yellow", "does not fit": "bold red"}
_SEVERITY_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.NOTE: "dim",
}
# rows below this share of the peak are summed into one
_LEAST_WIDTH = 20
_SMALL = 0.002


def print_budget(budget: Budget, console: Console, *, verbose: bool = False) -> None:
    """All of it; `verbose` shows small rows and notes, too."""
    _headline(budget, console)
    _accounts(budget, console, verbose)
    _training(budget, console)
    _checks(budget, console)
    _recommendations(budget, console)
    for label, lines in (("not resolved", budget.unresolved), ("assumed", budget.assumed)):
        for line in lines:
            console.print(Text(f"{label}: {printable(line)}", style="yellow"))


def _headline(budget: Budget, console: Console) -> None:
    title = Text(budget.verdict, style=_VERDICT_STYLES[budget.verdict])
    title.append(f"  {printable(budget.title)}", style="default")
    console.print(title)
    needed = f"{_room(budget.ram)}, peak in phase {budget.peak_phase!r}"
    _indented(console, needed, 6, lead="RAM")
    workers = sum(row.span.expected for row in budget.rows_in(Where.WORKERS))
    if workers:
        main = format_bytes(budget.main.expected)
        _indented(console, f"main process {main}, workers {format_bytes(workers)}", 6)
    if budget.vram.needed.high:
        _indented(console, _room(budget.vram), 6, lead="VRAM")
    disk = sum(row.span.expected for row in budget.rows_in(Where.DISK))
    if disk:
        console.print(f"disk  {format_bytes(disk)} a checkpoint")


def _room(room: Room) -> str:
    text = f"{format_bytes(room.needed.expected)} ({_range(room.needed)})"
    if room.limit_bytes is None or room.headroom_bytes is None:
        return text
    limit = f" of {format_bytes(room.limit_bytes)} ({printable(room.source)})"
    if room.headroom_bytes < 0:
        return f"{text}{limit}, {format_bytes(-room.headroom_bytes)} too much"
    return f"{text}{limit}, {format_bytes(room.headroom_bytes)} left"


def _range(span: Span) -> str:
    return f"{format_bytes(span.low)} to {format_bytes(span.high)}"


def _accounts(budget: Budget, console: Console, verbose: bool) -> None:
    console.print()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("account", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("from", no_wrap=True)
    table.add_column("formula", overflow="fold")
    least = 0 if verbose else _SMALL * budget.ram.needed.expected
    small: list[Row] = []
    for row in budget.rows:
        if row.span.expected < least and row.where is Where.MAIN:
            small.append(row)
            continue
        table.add_row(_account(row), format_bytes(row.span.expected), str(row.when), _formula(row))
    if small:
        size = sum(row.span.expected for row in small)
        table.add_row(f"{len(small)} smaller accounts", format_bytes(size), "", "")
    console.print(table)


def _account(row: Row) -> Text:
    text = Text(printable(row.account))
    if row.where in (Where.VRAM, Where.DISK):
        text.append(f" ({row.where})", style="dim")
    return text


def _formula(row: Row) -> Text:
    text = Text(printable(row.formula), style="dim")
    if row.transient:
        text.append("; for a moment")
    return text


def _training(budget: Budget, console: Console) -> None:
    training = budget.training
    parts = []
    if training.steps_per_iteration is not None:
        parts.append(f"{training.steps_per_iteration:,} steps an iteration")
    if training.batches_per_epoch is not None:
        parts.append(f"{training.batches_per_epoch:,} batches an epoch")
    if training.updates_per_iteration is not None:
        parts.append(f"{training.updates_per_iteration:,} gradient steps an update")
    if training.iterations is not None:
        parts.append(f"{training.iterations:,} iterations")
    if training.checkpoints is not None:
        disk = sum(row.span.expected for row in budget.rows_in(Where.DISK))
        parts.append(f"{training.checkpoints:,} checkpoints, {_kept(budget, disk)}")
    if training.steps_until_full is not None:
        full = f"buffer full after {training.steps_until_full:,} steps"
        if training.seconds_until_full is not None:
            full += f", {format_duration(training.seconds_until_full)}"
        else:
            full += " (steps_per_second or --probe tells the time)"
        parts.append(full)
    if parts:
        console.print()
        _indented(console, " · ".join(parts), 10, lead="training:")


def _kept(budget: Budget, disk_bytes: int) -> str:
    count = budget.training.checkpoints or 0
    kept = budget.config["callbacks"]["checkpoints_kept"]
    if kept is None:
        return f"{format_bytes(disk_bytes * count)} if all are kept"
    return f"{format_bytes(disk_bytes * min(count, kept))} for the {kept:,} that are kept"


def _checks(budget: Budget, console: Console) -> None:
    if not budget.checks:
        return
    console.print()
    console.print(Text("checks", style="bold"))
    for check in budget.checks:
        line = Text(f"  {check.severity}", style=_SEVERITY_STYLES[check.severity])
        line.append(f"  {check.id}  {printable(check.where)}", style="default")
        console.print(line)
        _indented(console, check.message, 6)
        _indented(console, f"→ {check.fix}", 6)


def _recommendations(budget: Budget, console: Console) -> None:
    if not budget.recommendations:
        return
    console.print()
    console.print(Text("what to change, the largest saving first", style="bold"))
    for item in budget.recommendations:
        saved = format_bytes(item.saves_bytes)
        console.print(Text(f" {item.priority}. {printable(item.change)}: saves {saved}"))
        _indented(console, item.why, 4, "dim")
        if item.costs:
            _indented(console, f"price: {item.costs}", 4, "dim")
        if item.apply:
            _indented(console, f"→ {remedy_command(item.apply, budget.command)}", 4)


def _indented(console: Console, text: str, cells: int, style: str = "", lead: str = "") -> None:
    """Wrapped, every line of it indented; `lead` stands in the first one's indentation."""
    for line in Text(printable(text)).wrap(console, max(_LEAST_WIDTH, console.width - cells)):
        shown = Text(f"{lead:<{cells}}").append(line.plain.rstrip(), style=style)
        console.print(shown, no_wrap=True, overflow="ignore", crop=False)
        lead = ""


def print_comparison(before: Budget, after: Budget, console: Console) -> None:
    """`--diff`: the rows that differ, and the sums."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("account", no_wrap=True)
    for name in ("this", "other", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    for change in row_changes(before, after):
        table.add_row(
            Text(printable(change.account)),
            format_bytes(change.before_bytes),
            format_bytes(change.after_bytes),
            format_delta(change.delta_bytes),
        )
    for name, sizes in (
        ("RAM at its peak", (before.ram.needed, after.ram.needed)),
        ("VRAM at its peak", (before.vram.needed, after.vram.needed)),
    ):
        old, new = sizes
        if old.high or new.high:
            change_bytes = format_delta(new.expected - old.expected)
            table.add_row(
                name, format_bytes(old.expected), format_bytes(new.expected), change_bytes
            )
    table.add_row("verdict", before.verdict, after.verdict, "")
    console.print(table)


def print_overview(
    budgets: Sequence[tuple[str, Budget]], failed: Iterable[tuple[str, str]], console: Console
) -> None:
    """A whole zoo file: one line an environment."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("environment", no_wrap=True)
    for name in ("RAM", "buffer", "from", "to"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name, budget in budgets:
        stored = sum(
            row.span.expected
            for row in budget.rows
            if row.family in ("rollout", "replay") and not row.transient
        )
        needed = budget.ram.needed
        table.add_row(
            Text(printable(name)), format_bytes(needed.expected), format_bytes(stored),
            format_bytes(needed.low), format_bytes(needed.high), budget.verdict,
        )  # fmt: skip
    console.print(table)
    for name, why in failed:
        console.print(Text(f"not planned: {printable(name)}: {printable(why)}", style="yellow"))
