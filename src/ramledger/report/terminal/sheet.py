"""Lines on a console, laid out so that no row wraps: titles, paragraphs, tables of numbers."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ramledger.ledger import printable
from ramledger.report.terminal.text_layout import cut_middle, in_ascii, left, right, wrapped

_LEAST_SIZE, _GAP = 5, "  "
_LEAST_WIDTH, _LEAST_NAME, _ENOUGH_NAME = 60, 20, 32


class Sheet:
    """Prints lines that are never wrapped; text from the run is never markup."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = max(_LEAST_WIDTH, console.width)
        self._is_ascii = console.options.ascii_only

    def line(self, text: str = "", style: str = "") -> None:
        shown = printable(text)
        shown = in_ascii(shown) if self._is_ascii else shown
        self.console.print(
            Text(shown.rstrip(), style=style), no_wrap=True, overflow="ignore", crop=False
        )

    def paragraph(self, text: str, style: str = "", indent: str = "  ") -> None:
        for line in Text(printable(text)).wrap(self.console, self.width - len(indent)):
            self.line(indent + line.plain, style)

    def facts(self, parts: list[str], indent: str = "  ") -> None:
        """Parts with dots between them; no line ends within a part."""
        for line in wrapped(parts, self.width - len(indent)):
            self.line(indent + line)

    def title(self, text: str) -> None:
        self.line()
        self.paragraph(text, "bold", indent="")

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 0) -> None:
        """Numbers to the right, the first column takes what is left; what does not fit is cut.

        So many columns at the end are words, not numbers: they go first where room is short.
        """
        if not rows:
            return
        widths = [
            max(_LEAST_SIZE if number else 0, *(cell_len(row[number]) for row in (heads, *rows)))
            for number in range(len(heads))
        ]
        numbers = len(heads) - words
        wanted = min(widths[0], _ENOUGH_NAME)
        while len(widths) > 2 and self._room(widths) < (wanted if words else _LEAST_NAME):
            words -= len(widths) > numbers
            del widths[-1]
        name = max(_LEAST_NAME, min(widths[0], self._room(widths)))
        for row, style in ((heads, "dim"), *((row, "") for row in rows)):
            cells = [left(cut_middle(row[0], name), name)]
            shown = zip(row[1:], widths[1:], strict=False)
            for number, (cell, width) in enumerate(shown, 1):
                cells.append(left(cell, width) if number >= numbers else right(cell, width))
            self.line("  " + _GAP.join(cells), style)

    def _room(self, widths: Sequence[int]) -> int:
        """Cells for the first column."""
        return self.width - 2 - sum(width + len(_GAP) for width in widths[1:])
