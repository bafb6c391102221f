"""A diagnosis in words: the verdict first, one paragraph a finding, ready to paste somewhere."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ramledger.diagnose.comparison import OwnerChange, compare
from ramledger.diagnose.finding import Diagnosis, Finding, Verdict
from ramledger.ledger import printable
from ramledger.report.diagnosis_words import (
    OWNER_HEADS,
    comparison_rows,
    died_text,
    does_not_fit,
    finding_facts,
    owner_cells,
    verdict_reason,
    verdict_word,
)
from ramledger.report.growth_captions import growth_rows, table_caption
from ramledger.run.ending import How

_STYLES = {
    Verdict.LEAK: "bold red",
    Verdict.HEALTHY: "bold green",
    Verdict.UNDECIDED: "bold yellow",
}

_MOST_ACCOUNTS = 20
_MOST_FINDINGS = 3
_INDENT, _LEAST = 14, 30  # cells


def print_diagnosis(diagnosis: Diagnosis, console: Console, *, verbose: bool = False) -> None:
    """How the run ended, the verdict, then every finding: leaks with all their evidence."""
    died = died_text(diagnosis)
    if died:
        unknown = diagnosis.ended is not None and diagnosis.ended.how is How.NOT_RECORDED
        console.print(Text(printable(died), style="yellow" if unknown else "bold red"))
    print_verdict(diagnosis, console, verbose=verbose, evidence=True)
    if verbose:
        _print_growth(diagnosis, console)
    for note in diagnosis.notes:
        console.print(Text(f"note: {printable(note)}", style="yellow"))


def print_verdict(
    diagnosis: Diagnosis, console: Console, *, verbose: bool = False, evidence: bool = False
) -> None:
    """The verdict and the findings behind it; each leak with its line of code and its holder."""
    too_much = does_not_fit(diagnosis)
    if too_much:
        console.print(Text("does not fit", style="bold red"), end="  ")
        console.print(Text(printable(too_much)))
    title = Text(verdict_word(diagnosis), style=_STYLES[diagnosis.verdict])
    title.append(f"  {printable(verdict_reason(diagnosis))}", style="default")
    console.print(title)
    is_short = not evidence and not verbose
    findings = diagnosis.findings[:_MOST_FINDINGS] if is_short else diagnosis.findings
    for finding in findings:
        is_title = finding.summary == diagnosis.reason
        if not is_title:
            console.print(
                Text(printable(f"also: {finding.summary}"), style="" if is_short else "bold")
            )
        if is_title or not is_short:
            _print_facts(
                finding, console, diagnosis.command, verbose=verbose, evidence=evidence or verbose
            )
    more = len(diagnosis.findings) - len(findings)
    if more:
        console.print(Text(f"{more} more findings: --verbose", style="dim"))


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


def _print_facts(
    finding: Finding, console: Console, command: str, *, verbose: bool, evidence: bool
) -> None:
    previous = ""
    facts = finding_facts(finding, command, evidence=evidence, healthy_evidence=verbose)
    for name, text in facts:
        lead = "" if name == previous else name
        previous = name
        for line in Text(printable(text)).wrap(console, max(_LEAST, console.width - _INDENT)):
            row = Text().append(f"  {lead:<{_INDENT - 2}}", style="dim").append(line.plain)
            console.print(row, no_wrap=True, overflow="ignore", crop=False)
            lead = ""


def print_comparison(
    this: tuple[str, Diagnosis], other: tuple[str, Diagnosis], console: Console
) -> None:
    """Did the fix work? A word, two verdicts side by side, and the owners that differ."""
    found = compare(other[1], this[1])
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for path, _ in (this, other):
        table.add_column(Text(printable(path)), overflow="fold")
    for name, *cells in comparison_rows(found, this[1], other[1]):
        table.add_row(name, *(Text(printable(cell)) for cell in cells))
    console.print(Text(printable(f"{found.change}: {found.sentence}"), style="bold"))
    console.print()
    console.print(table)
    if found.owners:
        console.print()
        console.print(_owner_changes(found.owners))


def _owner_changes(owners: Sequence[OwnerChange]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    owner, *sizes, before, now = OWNER_HEADS
    table.add_column(owner, overflow="fold")
    for name in sizes:
        table.add_column(name, justify="right", no_wrap=True)
    for name in (before, now):
        table.add_column(name, justify="right", overflow="fold")
    for one in owners:
        table.add_row(*(Text(printable(cell)) for cell in owner_cells(one)))
    return table
