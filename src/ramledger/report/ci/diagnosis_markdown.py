"""A diagnosis, or two side by side, as Markdown: a comment on a change, a summary of a job."""

from collections.abc import Iterable

from ramledger.diagnose.comparison import compare
from ramledger.diagnose.finding import Diagnosis, Finding, Kind, Verdict
from ramledger.report.ci.markdown_text import code, sentence, table
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

MARK = "<!-- ramledger -->"  # by which a job finds its comment again
_SIGNS = {Verdict.LEAK: "🔴", Verdict.HEALTHY: "🟢", Verdict.UNDECIDED: "🟡"}
_MOST_ACCOUNTS = 12
_IN_CODE = frozenset({"line", "held by", "evidence"})  # names and lines, no sentences


def diagnosis_markdown(name: str, diagnosis: Diagnosis) -> str:
    """The verdict, every leak with its evidence, the growth table folded away."""
    parts = [MARK, _heading(diagnosis), f"Recording: {code(name)}", *_rest(diagnosis)]
    return "\n\n".join(parts) + "\n"


def comparison_markdown(this: tuple[str, Diagnosis], other: tuple[str, Diagnosis]) -> str:
    """What a change did: a word, both verdicts side by side, the owners that differ, the leaks."""
    found = compare(other[1], this[1])
    rows = [
        (name, *(code(cell) for cell in cells))
        for name, *cells in comparison_rows(found, this[1], other[1])
        if any(cells)
    ]
    parts = [
        MARK,
        f"### {_SIGNS[this[1].verdict]} Memory: {found.change}",
        sentence(found.sentence),
        table(("", code(this[0]), code(other[0])), rows),
    ]
    if found.owners:
        cells = [[code(account), *rest] for account, *rest in map(owner_cells, found.owners)]
        parts.append(table(OWNER_HEADS, cells, numbers=range(1, 6)))
    return "\n\n".join((*parts, *_rest(this[1]))) + "\n"


def _heading(diagnosis: Diagnosis) -> str:
    reason = sentence(verdict_reason(diagnosis))
    return f"### {_SIGNS[diagnosis.verdict]} Memory: {verdict_word(diagnosis)}\n\n{reason}"


def _rest(diagnosis: Diagnosis) -> Iterable[str]:
    died, too_much = died_text(diagnosis), does_not_fit(diagnosis)
    if died:
        yield f"**{sentence(died)}**"
    if too_much:
        yield f"**does not fit**: {sentence(too_much)}"
    for finding in diagnosis.findings:
        if finding.kind is Kind.LEAK:
            yield _leak(finding, diagnosis.command, is_title=finding.summary == diagnosis.reason)
    heads, rows = growth_rows(diagnosis, _MOST_ACCOUNTS)
    if rows:
        cells = [[code(account), *map(sentence, rest)] for account, *rest in rows]
        caption = sentence(table_caption(diagnosis))
        shown = table(heads, cells, numbers=range(1, len(heads)))
        yield f"<details><summary>Growth by account</summary>\n\n{caption}\n\n{shown}\n\n</details>"
    for note in diagnosis.notes:
        yield f"Note: {sentence(note)}"


def _leak(finding: Finding, command: str, *, is_title: bool) -> str:
    head = "" if is_title else f"**{sentence(finding.summary)}**\n\n"
    items = (
        f"- {name}: {code(text) if name in _IN_CODE else sentence(text)}"
        for name, text in finding_facts(finding, command)
    )
    return head + "\n".join(items)
