"""Growth of a run in sentences, the same on the page and in a terminal: why two numbers differ."""

from collections.abc import Sequence

from ramledger.diagnose.finding import Diagnosis, GrowthLine
from ramledger.diagnose.growth_lines import OTHERS
from ramledger.diagnose.leak_words import per_iteration
from ramledger.ledger import printable
from ramledger.units import MIB, format_bytes, format_delta, format_duration

_SHARE = 3  # its column
_MOST_SHARE = 2.0  # beyond it tells nothing: what grew and what shrank nearly cancel out
_WORTH_BYTES = MIB  # smaller changes are not worth a row


def growth_rows(
    diagnosis: Diagnosis, most: int, *, shares: bool = True
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Heads and rows of the growth table: the largest changes, the others as one, RSS last."""
    total = diagnosis.growth_total
    if total is None:
        return (), []
    *accounts, unexplained = diagnosis.growth
    large = [line for line in accounts[:most] if abs(line.growth_bytes) >= _WORTH_BYTES]
    shown = [line for line in large if line.account != OTHERS]
    rest = [line for line in accounts if line not in shown]
    if rest:
        growth, rate = (
            sum(line.growth_bytes for line in rest),
            sum(line.bytes_per_generation for line in rest),
        )
        share = sum(line.share for line in rest)
        shown.append(GrowthLine(OTHERS, growth, rate, (rate, rate), share, ""))
    heads = ("account", "growth", per_iteration(total.per), "share", "shape", "since", "capacity")
    rows = [_cells(line) for line in (*shown, unexplained, total)]
    if shares:
        return heads, rows
    return (*heads[:_SHARE], *heads[_SHARE + 1 :]), [
        (*row[:_SHARE], *row[_SHARE + 1 :]) for row in rows
    ]


def _cells(line: GrowthLine) -> Sequence[str]:
    return (
        printable(line.account),
        format_delta(line.growth_bytes),
        format_delta(round(line.bytes_per_generation)),
        f"{line.share:.1%}" if abs(line.share) <= _MOST_SHARE else "",
        line.shape,
        "" if line.onset_generation is None else str(line.onset_generation),
        "" if line.capacity_bytes is None else format_bytes(line.capacity_bytes),
    )


def table_caption(diagnosis: Diagnosis) -> str:
    """What the growth table covers, and why its rates are not the verdict's."""
    total, span = diagnosis.growth_total, diagnosis.growth_span
    if total is None or span is None:
        return ""
    text = (
        f"RSS grew {format_bytes(total.growth_bytes)} {_stretch(span, total.per)}, in which all "
        "accounts are known; the rows sum to it. Each rate is that of the straight line over all "
        "of this stretch."
    )
    if not diagnosis.leaks:
        return text
    return f"{text} {_verdict_rate(diagnosis)}"


def stretch_text(diagnosis: Diagnosis) -> str:
    """`from iteration 3 to 34: +78.9 MiB`."""
    total, span = diagnosis.growth_total, diagnosis.growth_span
    if total is None or span is None:
        return ""
    return f"{_stretch(span, total.per)}: {format_delta(total.growth_bytes)}"


def _stretch(span: tuple[float, float], per: str) -> str:
    begin, end = span
    if per == "minute":
        return f"from {format_duration(begin)} to {format_duration(end)}"
    return f"from iteration {begin:.0f} to {end:.0f}"


def _verdict_rate(diagnosis: Diagnosis) -> str:
    leak = diagnosis.leaks[0]
    onset = leak.onset_generation
    since = "since it began" if onset is None else f"since iteration {onset}"
    rate = f"{format_bytes(leak.bytes_per_generation)} {per_iteration(leak.per)}"
    return f"The verdict's rate, {rate}, is fitted {since} and leaves out what fills a buffer."


def phases_caption(diagnosis: Diagnosis | None, rows: Sequence[str]) -> str:
    """Why growth by phase is not the verdict's rate; '' where it names none of these phases."""
    leak = diagnosis.leaks[0] if diagnosis is not None and diagnosis.leaks else None
    if leak is None or leak.phase not in rows or diagnosis is None:
        return ""
    return (
        f"{_verdict_rate(diagnosis)} RSS grows in the phase that touches new pages: {leak.phase} "
        "shows less than it adds where it reuses what another phase freed, and that phase more."
    )
