"""Annotations of GitHub: `::error file=train.py,line=29,title=…::…`, one line of output each.

Whatever a name in a recording contains, a line begins with a command of ours and holds no other.
"""

from collections.abc import Callable, Iterator

from ramledger.diagnose.comparison import Change, Comparison
from ramledger.diagnose.finding import Diagnosis, Finding, Kind, Verdict
from ramledger.ledger import printable
from ramledger.report.ci.code_places import CodePlace, code_place
from ramledger.report.diagnosis_words import (
    died_text,
    does_not_fit,
    finding_facts,
    verdict_reason,
    verdict_word,
)

_MOST_LEAKS = 8  # GitHub shows ten of a kind
_MOST_CHARACTERS = 2000

FileFinder = Callable[[CodePlace], str]


def annotations(
    diagnosis: Diagnosis, find_file: FileFinder, comparison: Comparison | None = None
) -> Iterator[str]:
    """One for each leak at its line of code, and one for the verdict where there is no leak.

    `find_file`: the path of a place's file in the repository, '' where it is not known.
    """
    if comparison is not None:
        level = "error" if comparison.change is Change.WORSE else "notice"
        yield _command(level, f"memory: {comparison.change}", comparison.sentence)
    if died_text(diagnosis):
        yield _command("error", "memory", died_text(diagnosis))
    if does_not_fit(diagnosis):
        yield _command("error", "memory: does not fit", does_not_fit(diagnosis))
    for leak in diagnosis.leaks[:_MOST_LEAKS]:
        yield _leak(leak, diagnosis.command, find_file)
    if diagnosis.verdict is not Verdict.LEAK:
        level = "notice" if diagnosis.verdict is Verdict.HEALTHY else "warning"
        yield _command(level, f"memory: {verdict_word(diagnosis)}", verdict_reason(diagnosis))


def _leak(leak: Finding, command: str, find_file: FileFinder) -> str:
    assert leak.kind is Kind.LEAK
    facts = [f"{name}: {text}" for name, text in finding_facts(leak, command)]
    where: dict[str, str] = {}
    for line in (*leak.code.stored_at, *leak.code.made_at, *leak.code.grew_at):
        place = code_place(line)
        file = find_file(place) if place is not None else ""
        if place is not None and file:
            where = {"file": file, "line": str(place.line)}
            break
    return _command("error", "memory: leak", "\n".join((leak.summary, *facts)), **where)


def _command(level: str, title: str, message: str, **where: str) -> str:
    properties = {**where, "title": title}
    shown = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    lines = (printable(line) for line in message[:_MOST_CHARACTERS].split("\n"))
    return f"::{level} {shown}::{'%0A'.join(map(_data, lines))}"


def _data(text: str) -> str:
    """As the runner of GitHub decodes it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")
