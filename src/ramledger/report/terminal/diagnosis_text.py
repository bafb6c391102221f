"""A diagnosis in words: the verdict first, one paragraph a finding, ready to paste somewhere."""

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ramledger.diagnose.comparison import OwnerChange, Rate, compare
from ramledger.diagnose.finding import Diagnosis, Finding, Kind, Outlook, Verdict
from ramledger.ledger import printable
from ramledger.report.growth_captions import growth_rows, table_caption
from ramledger.run.ending import How
from ramledger.units import format_bytes, format_delta

_STYLES = {
    Verdict.LEAK: "bold red",
    Verdict.HEALTHY: "bold green",
    Verdict.UNDECIDED: "bold yellow",
}

_MOST_ACCOUNTS = 20


def print_diagnosis(
    diagnosis: Diagnosis, console: Console, *, verbose: bool = False, ending: bool = True
) -> None:
    """How the run died, the verdict, then every finding: leaks with all their evidence.

    Without `ending` where it is said elsewhere already.
    """
    ended = diagnosis.ended
    if ending and ended is not None and not ended.is_ordinary:
        style = "yellow" if ended.how is How.NOT_RECORDED else "bold red"
        console.print(Text(printable(f"the run {ended.text}"), style=style))
    if diagnosis.outlook is not None and diagnosis.outlook.fits is False:
        console.print(Text("does not fit", style="bold red"), end="  ")
        console.print(Text(printable(_outlook(diagnosis.outlook))))
    title = Text(_word(diagnosis), style=_STYLES[diagnosis.verdict])
    title.append(f"  {printable(_without_verdict(diagnosis))}", style="default")
    console.print(title)
    for finding in diagnosis.findings:
        if finding.summary != diagnosis.reason:  # that one is the title
            console.print()
            console.print(Text(printable(finding.summary), style="bold"))
        _print_facts(finding, console, verbose=verbose)
    if verbose:
        _print_growth(diagnosis, console)
    for note in diagnosis.notes:
        console.print(Text(f"note: {printable(note)}", style="yellow"))


def _outlook(outlook: Outlook) -> str:
    """`about 3.0 GiB at iteration 50,000; the limit is 2.0 GiB (container), reached at 31,000`."""
    at = f" at iteration {outlook.generation:,}" if outlook.generation is not None else ""
    text = f"about {format_bytes(outlook.peak_bytes)}{at}"
    if outlook.limit is None:
        return text
    text += f"; the limit is {format_bytes(outlook.limit.bytes)} ({outlook.limit.source})"
    if outlook.limit_generation is None:
        return text
    return f"{text}, reached at iteration {outlook.limit_generation:,}"


def _word(diagnosis: Diagnosis) -> str:
    """The verdict; a run that died for memory is not called healthy because it does not leak."""
    died = diagnosis.ended is not None and diagnosis.ended.is_for_memory
    is_healthy = diagnosis.verdict is Verdict.HEALTHY
    return "no leak found" if died and is_healthy else str(diagnosis.verdict)


def _print_growth(diagnosis: Diagnosis, console: Console) -> None:
    """The growth table: what to attach to a bug report."""
    heads, rows = growth_rows(diagnosis, _MOST_ACCOUNTS)
    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for at, title in enumerate(heads):
        table.add_column(title, justify="right" if at else "left", no_wrap=bool(at))
    for row in rows:
        table.add_row(*map(Text, row))
    console.print()
    console.print(Text(printable(table_caption(diagnosis))))
    console.print(table)


def _without_verdict(diagnosis: Diagnosis) -> str:
    return diagnosis.reason.removeprefix("leak: ").removeprefix("not a leak: ")


def _print_facts(finding: Finding, console: Console, *, verbose: bool) -> None:
    rows = _facts(finding) if finding.kind is Kind.LEAK else []
    if finding.kind is Kind.LEAK or verbose:
        rows += [("evidence", line) for line in finding.evidence]
    if finding.advice:
        rows.append(("what to do", finding.advice))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    previous = ""
    for name, text in rows:
        table.add_row("" if name == previous else name, Text(printable(text)))
        previous = name
    if rows:
        console.print(Padding(table, (0, 0, 0, 2)))


def _facts(finding: Finding) -> list[tuple[str, str]]:
    low, high = finding.interval_bytes
    rows = [("growth", f"{format_bytes(finding.bytes_per_generation)} a {finding.per}")]
    if low or high:
        rows[0] = ("growth", f"{rows[0][1]} ({format_bytes(low)} to {format_bytes(high)})")
    rows.append(("phase", finding.phase))
    rows.append(("culprit", f" {finding.culprit.relation} ".join(filter(None, _culprit(finding)))))
    rows.append(("cause", str(finding.cause or "")))
    rows.append(("caused by", finding.fault))
    if finding.onset_generation is not None:
        rows.append(("since", f"generation {finding.onset_generation}"))
    rows.append(("confidence", f"{finding.confidence:.0%}"))
    return [(name, text) for name, text in rows if text]


def _culprit(finding: Finding) -> tuple[str, str]:
    return finding.culprit.type, finding.culprit.path


def print_comparison(
    this: tuple[str, Diagnosis], other: tuple[str, Diagnosis], console: Console
) -> None:
    """Did the fix work? A word, two verdicts side by side, and the owners that differ."""
    found = compare(other[1], this[1])
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for path, _ in (this, other):
        table.add_column(Text(printable(path)), overflow="fold")
    rows = [
        ("ended", ["" if d.ended is None else d.ended.text for _, d in (this, other)]),
        ("verdict", [_word(d) for _, d in (this, other)]),
        ("growth", [_rate(found.after_rate), _rate(found.before_rate)]),
        ("phase", [d.leaks[0].phase if d.leaks else "" for _, d in (this, other)]),
        ("cause", [str(d.leaks[0].cause) if d.leaks else "" for _, d in (this, other)]),
        ("culprit", [" @ ".join(filter(None, _culprit(d.leaks[0]))) if d.leaks else ""
                     for _, d in (this, other)]),
        ("generations", [str(d.generations) for _, d in (this, other)]),
    ]  # fmt: skip
    for name, cells in rows:
        table.add_row(name, *(Text(printable(cell)) for cell in cells))
    console.print(Text(printable(f"{found.change}: {found.sentence}"), style="bold"))
    console.print()
    console.print(table)
    if found.owners:
        console.print()
        console.print(_owner_changes(found.owners))


def _owner_changes(owners: Sequence[OwnerChange]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("owner", overflow="fold")
    for name in ("before", "now", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("growth before", "growth now"):
        table.add_column(name, justify="right", overflow="fold")
    for owner in owners:
        table.add_row(
            Text(printable(owner.account)),
            format_bytes(owner.before_bytes),
            format_bytes(owner.after_bytes),
            format_delta(owner.after_bytes - owner.before_bytes),
            _rate(owner.before_rate),
            _rate(owner.after_rate),
        )
    return table


def _rate(rate: Rate) -> str:
    """`6.0 MiB a generation (5.9 MiB to 6.1 MiB)`."""
    low, high = (format_bytes(round(bound)) for bound in rate.interval)
    if not rate.bytes:
        return "none"
    return rate.text if low == high else f"{rate.text} ({low} to {high})"
