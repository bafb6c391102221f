"""The report in a terminal: verdict, sparkline, heat map in blocks, then the tables."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ramledger.diagnose.finding import Diagnosis
from ramledger.ledger import printable
from ramledger.report.html.page_growth import heat_map
from ramledger.report.terminal.run_summary import print_summary
from ramledger.report.terminal.text_layout import cut_middle, in_ascii, left, right
from ramledger.run.model import Run
from ramledger.run.timeline import build_timeline
from ramledger.units import format_bytes, format_delta, format_duration

_LEVELS = " ░▒▓█"
_NAME, _SUM, _LEAST = 24, 11, 8


def print_overview(run: Run, diagnosis: Diagnosis | None, console: Console) -> None:
    """What the page shows, as far as text can show it."""
    print_summary(run, console, diagnosis, verbose=True)
    console.print()
    _trend_line(run, console)
    _heat_map(heat_map(build_timeline(run), diagnosis), console)


def _trend_line(run: Run, console: Console) -> None:
    if not len(run.tree):
        return
    low, high = min(run.tree.values), max(run.peak_bytes, *run.tree.values)
    ends = f"{format_bytes(low)} to {format_bytes(high)}"
    width = max(_LEAST, min(96, console.width - len(ends) - 4))
    _line(console, ("memory over time", "bold"))
    _line(console, (f"  {run.tree.sparkline(width)}", "cyan"), (f"  {ends}", "dim"))
    span = format_duration(run.now_seconds)
    _line(console, (f"  0 s{right(span, width - 3)}", "dim"))
    console.print()


def _heat_map(heat: dict[str, Any] | None, console: Console) -> None:
    """One block per iteration; darker where memory grew more, `-` where it was freed."""
    if not heat or not heat["columns"]:
        return
    room = max(_LEAST, console.width - _NAME - _SUM - 6)
    rows = [_squeezed(cells, room) for cells in heat["cells"]]
    most = max((abs(size) for row in rows for size in row), default=0)
    unit = "stretch of time" if heat["kind"] == "functions" else "iteration"
    _line(console, (f"where it grew, by {unit}", "bold"), (f"  █ is {format_bytes(most)}", "dim"))
    for at, (name, row) in enumerate(zip(heat["rows"], rows, strict=True)):
        blocks = "".join(_block(size, most) for size in row)
        title = left(cut_middle(printable(name), _NAME), _NAME)
        total = right(format_delta(sum(row)), _SUM)
        style = "bold red" if at == heat["culprit"] else ""
        _line(console, (f"  {title} ", style), (blocks, "yellow"), (f" {total}", "dim"))
    console.print()


def _squeezed(cells: Sequence[int], room: int) -> list[int]:
    """Neighbors summed until they fit."""
    per_block = -(-len(cells) // room)
    return [sum(cells[at : at + per_block]) for at in range(0, len(cells), per_block)]


def _block(size: int, most: int) -> str:
    if size < -0.05 * most:
        return "-"
    strength = (max(0, size) / most) ** 0.5 if most else 0.0
    return _LEVELS[round(strength * (len(_LEVELS) - 1))]


def _line(console: Console, *parts: tuple[str, str]) -> None:
    text = Text.assemble(*((printable(words), style) for words, style in parts))
    text.rstrip()
    if console.options.ascii_only:
        text.plain = in_ascii(text.plain)
    console.print(text, no_wrap=True, overflow="ignore", crop=False)
