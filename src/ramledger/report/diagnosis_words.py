"""A diagnosis and a comparison as names and texts, the same in every form they are printed in."""

from collections.abc import Sequence

from ramledger.diagnose.advice import remedy_command
from ramledger.diagnose.comparison import Comparison, OwnerChange, Rate
from ramledger.diagnose.finding import Diagnosis, Finding, Kind, Outlook, Verdict
from ramledger.diagnose.leak_words import holder_chain, leak_sentence, per_iteration
from ramledger.units import format_bytes, format_delta

Pair = tuple[str, str]

OWNER_HEADS = ("owner", "before", "now", "change", "growth before", "growth now")


def verdict_word(diagnosis: Diagnosis) -> str:
    """The verdict; a run that died for memory is not called healthy because it does not leak."""
    died = diagnosis.ended is not None and diagnosis.ended.is_for_memory
    is_healthy = diagnosis.verdict is Verdict.HEALTHY
    return "no leak found" if died and is_healthy else str(diagnosis.verdict)


def verdict_reason(diagnosis: Diagnosis) -> str:
    """Why, without the word itself; of a leak without its numbers, which stand below."""
    first = diagnosis.leaks[0] if diagnosis.leaks else None
    if first is not None and first.summary == diagnosis.reason and first.cause is not None:
        return leak_sentence(first.cause, first.culprit, first.code)
    return diagnosis.reason.removeprefix("leak: ").removeprefix("not a leak: ")


def does_not_fit(diagnosis: Diagnosis) -> str:
    """`about 3.0 GiB at iteration 50,000; the limit is 2.0 GiB (container), reached at 31,000`.

    '' where it fits, or nobody can tell.
    """
    outlook = diagnosis.outlook
    return outlook_text(outlook) if outlook is not None and outlook.fits is False else ""


def outlook_text(outlook: Outlook) -> str:
    at = f" at iteration {outlook.generation:,}" if outlook.generation is not None else ""
    text = f"about {format_bytes(outlook.peak_bytes)}{at}"
    if outlook.limit is None:
        return text
    text += f"; the limit is {format_bytes(outlook.limit.bytes)} ({outlook.limit.source})"
    if outlook.limit_generation is None:
        return text
    return f"{text}, reached at iteration {outlook.limit_generation:,}"


def died_text(diagnosis: Diagnosis) -> str:
    """`the run was killed by …`; '' where it ended as programs do."""
    ended = diagnosis.ended
    return "" if ended is None or ended.is_ordinary else f"the run {ended.text}"


def finding_facts(
    finding: Finding, command: str, *, evidence: bool = True, healthy_evidence: bool = False
) -> list[Pair]:
    """What is known of a finding: of a leak where, who, how much and why; then what to do.

    `command`: what was recorded, for the remedy that could be put in force.
    """
    is_leak = finding.kind is Kind.LEAK
    pairs = _leak_facts(finding) if is_leak else []
    if finding.advice:
        pairs.append(("what to do", finding.advice))
    if finding.apply:
        pairs.append(("what to do", f"→ {remedy_command(finding.apply, command)}"))
    if (evidence and is_leak) or healthy_evidence:
        pairs += [("evidence", line) for line in finding.evidence]
    return pairs


def _leak_facts(finding: Finding) -> list[Pair]:
    """Where, who, since when, how much, how sure."""
    low, high = finding.interval_bytes
    growth = f"{format_bytes(finding.bytes_per_generation)} {per_iteration(finding.per)}"
    if format_bytes(low) != format_bytes(high):
        growth += f" ({format_bytes(low)} to {format_bytes(high)})"
    if finding.onset_generation is not None:
        growth += f", since iteration {finding.onset_generation}"
    if finding.phase:
        growth += f", in {finding.phase}"
    culprit = finding.culprit
    chain = "" if culprit.is_code else " → ".join(holder_chain(culprit.path, culprit.type))
    cause = f"{finding.cause} ({finding.fault})" if finding.fault else str(finding.cause or "")
    pairs = [
        ("line", finding.code.best),
        ("held by", chain),
        ("growth", growth),
        ("cause", f"{cause}, {finding.confidence:.0%} sure"),
    ]
    return [(name, text) for name, text in pairs if text]


def comparison_rows(
    found: Comparison, this: Diagnosis, other: Diagnosis
) -> list[tuple[str, str, str]]:
    """Both verdicts side by side: what, this run, the other one."""
    both = (this, other)
    leaks = [diagnosis.leaks[0] if diagnosis.leaks else None for diagnosis in both]
    rows: list[tuple[str, list[str]]] = [
        ("ended", ["" if d.ended is None else d.ended.text for d in both]),
        ("verdict", [verdict_word(d) for d in both]),
        ("growth", [rate_text(found.after_rate), rate_text(found.before_rate)]),
        ("phase", [leak.phase if leak else "" for leak in leaks]),
        ("cause", [str(leak.cause) if leak else "" for leak in leaks]),
        ("culprit", [_culprit(leak) for leak in leaks]),
        ("iterations", [str(d.generations) for d in both]),
    ]
    return [(name, cells[0], cells[1]) for name, cells in rows]


def _culprit(leak: Finding | None) -> str:
    parts = () if leak is None else (leak.culprit.type, leak.culprit.path)
    return " @ ".join(filter(None, parts))


def owner_cells(owner: OwnerChange) -> Sequence[str]:
    """One row below `OWNER_HEADS`."""
    return (
        owner.account,
        format_bytes(owner.before_bytes),
        format_bytes(owner.after_bytes),
        format_delta(owner.after_bytes - owner.before_bytes),
        rate_text(owner.before_rate),
        rate_text(owner.after_rate),
    )


def rate_text(rate: Rate) -> str:
    """`6.0 MiB an iteration (5.9 MiB to 6.1 MiB)`."""
    low, high = (format_bytes(round(bound)) for bound in rate.interval)
    if not rate.bytes:
        return "none"
    return rate.text if low == high else f"{rate.text} ({low} to {high})"
