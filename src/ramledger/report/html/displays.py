"""What a notebook shows of a diagnosis and of a budget: the verdict first, then small tables."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ramledger.html_tables import display, lines, table, title
from ramledger.ledger import printable
from ramledger.report.diagnosis_words import (
    died_text,
    does_not_fit,
    finding_facts,
    verdict_reason,
    verdict_word,
)
from ramledger.report.growth_captions import growth_rows, table_caption
from ramledger.units import format_bytes

if TYPE_CHECKING:
    from ramledger.diagnose.finding import Diagnosis
    from ramledger.plan.budget import Budget, Room

_MOST_ACCOUNTS = 8
_MOST_ROWS = 12


def diagnosis_html(diagnosis: "Diagnosis") -> str:
    """The verdict, each finding, the growth table."""
    too_much = does_not_fit(diagnosis)
    parts = [
        title(verdict_word(diagnosis), printable(verdict_reason(diagnosis))),
        lines(printable(text) for text in (died_text(diagnosis),) if text),
        title("does not fit", printable(too_much)) if too_much else "",
    ]
    for finding in diagnosis.findings:
        if finding.summary != diagnosis.reason:  # that one is the title
            parts.append(title(printable(finding.summary)))
        facts = _without_repeats(finding_facts(finding, diagnosis.command))
        parts.append(table(("", ""), facts) if facts else "")
    heads, rows = growth_rows(diagnosis, _MOST_ACCOUNTS)
    if rows:
        numbers = range(1, len(heads))
        parts.append(table(heads, rows, numbers=numbers, is_last_a_sum=True))
        parts.append(lines([table_caption(diagnosis)]))
    parts.append(lines(f"note: {printable(note)}" for note in diagnosis.notes))
    return display(*parts)


def budget_html(budget: "Budget") -> str:
    """The verdict, what is needed of what there is, the largest rows, what to change."""
    rooms = [("RAM", budget.ram)] + ([("VRAM", budget.vram)] if budget.vram.needed.high else [])
    ordered = sorted(budget.rows, key=lambda row: -row.span.expected)
    rows = [
        (printable(row.account), format_bytes(row.span.expected), str(row.where), str(row.when),
         printable(row.formula))
        for row in ordered[:_MOST_ROWS]
    ]  # fmt: skip
    rest = ordered[_MOST_ROWS:]
    if rest:
        size = format_bytes(sum(row.span.expected for row in rest))
        rows.append((f"{len(rest)} smaller", size, "", "", ""))
    changes = [
        (printable(one.change), format_bytes(one.saves_bytes), printable(one.why))
        for one in budget.recommendations
    ]
    checks = [(str(one.severity), printable(one.message), printable(one.fix))
              for one in budget.checks]  # fmt: skip
    return display(
        title(budget.verdict, printable(budget.title)),
        lines(f"{name} {_room_text(room)}" for name, room in rooms),
        table(("account", "bytes", "where", "from", "formula"), rows, numbers=(1,)),
        table(("what to change", "saves", "why"), changes, numbers=(1,)) if changes else "",
        table(("check", "", "what to do"), checks) if checks else "",
        lines(f"not resolved: {printable(line)}" for line in budget.unresolved),
        lines(f"assumed: {printable(line)}" for line in budget.assumed),
    )


def _room_text(room: "Room") -> str:
    span = room.needed
    text = f"{format_bytes(span.expected)} ({format_bytes(span.low)} to {format_bytes(span.high)})"
    if room.limit_bytes is None:
        return text
    return f"{text} of {format_bytes(room.limit_bytes)} ({printable(room.source)})"


def _without_repeats(pairs: Iterable[tuple[str, str]]) -> list[Sequence[str]]:
    """Each name once, above the texts that have it."""
    rows: list[Sequence[str]] = []
    previous = ""
    for name, text in pairs:
        rows.append(("" if name == previous else name, printable(text)))
        previous = name
    return rows
