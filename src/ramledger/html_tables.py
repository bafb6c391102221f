"""Small tables as HTML for notebooks: every text escaped, no scripts, no colors of their own.

Styles are inline, the only ones that notebooks keep, and take over the colors of the page, so that
they can be read in light and dark.
"""

from collections.abc import Iterable, Sequence

_TABLE = "border-collapse:collapse;margin:.4em 0;font-variant-numeric:tabular-nums"
_HEAD = "text-align:{};padding:.1em .8em .1em 0;font-weight:normal;opacity:.7;background:none"
_CELL = "text-align:{};padding:.1em .8em .1em 0;vertical-align:top;background:none"
_LAST = "border-top:1px solid"
_WHOLE = ";white-space:nowrap"
# the module `html` would load a table of all entities, half a megabyte, into a training
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
_MOST_CHARACTERS = 400  # of one text: a command line may be endless


def display(*parts: str) -> str:
    """The parts, one below the other, as what a notebook shows."""
    return f'<div style="overflow-x:auto;line-height:1.4">{"".join(parts)}</div>'


def title(text: str, rest: str = "") -> str:
    """`text` in bold, then the rest of the line."""
    return f"<div><strong>{_shown(text)}</strong> {_shown(rest)}</div>"


def lines(texts: Iterable[str]) -> str:
    """Each text on a line of its own, less prominent than the rest."""
    return "".join(f'<div style="opacity:.7">{_shown(text)}</div>' for text in texts)


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    is_last_a_sum: bool = False,
) -> str:
    """A table; the columns `numbers` are aligned to the right."""
    sides = ["right" if at in numbers else "left" for at in range(len(heads))]
    all_rows = list(rows)
    head = "".join(
        f'<th style="{_HEAD.format(side)}">{_shown(text)}</th>'
        for side, text in zip(sides, heads, strict=True)
    )
    body = "".join(
        _row(row, sides, is_sum=is_last_a_sum and at == len(all_rows) - 1)
        for at, row in enumerate(all_rows)
    )
    top = f"<thead><tr>{head}</tr></thead>" if any(heads) else ""
    return f'<table style="{_TABLE}">{top}<tbody>{body}</tbody></table>'


def _row(row: Sequence[str], sides: Sequence[str], *, is_sum: bool) -> str:
    more = f";{_LAST}" if is_sum else ""
    cells = (
        f'<td style="{_CELL.format(side)}{_WHOLE if side == "right" else ""}{more}">'
        f"{_shown(text)}</td>"
        for side, text in zip(sides, row, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _shown(text: str) -> str:
    cut = text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
    return cut.translate(_ENTITIES)
