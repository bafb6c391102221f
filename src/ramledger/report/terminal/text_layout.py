"""Text that fits where it is put: commands and paths shortened, columns padded, bars.

Widths are terminal cells, so that a file name in any script keeps its column.
"""

import re

from rich.cells import cell_len, set_cell_size

from ramledger.ledger import printable

ELLIPSIS = "…"
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LONG_PATH = 32
_PHRASE_ENDS = re.compile(r"[,:;] | · | \(")
# one character for one, so that nothing moves where a terminal or a log is not UTF-8
_ASCII = str.maketrans("…·×→█▏▎▍▌▋▊▉", "~-x>#.:-=+**")


def in_ascii(text: str) -> str:
    """The same with our own marks as ASCII; the text of strangers is left to the stream."""
    return text.translate(_ASCII)


def cut(text: str, width: int) -> str:
    """At most `width` cells, an ellipsis where the end is missing."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + ELLIPSIS if width > 0 else ""


def whole_phrases(text: str, width: int) -> str:
    """As many phrases of a sentence as fit; they end at commas, colons and dots."""
    ends = [match.start() for match in _PHRASE_ENDS.finditer(text)]
    for end in [len(text), *reversed(ends)]:
        if cell_len(text[:end]) <= width:
            return text[:end]
    return cut(text, width)


def cut_middle(text: str, width: int) -> str:
    """At most `width` cells; a path keeps its beginning and, more of it, its end."""
    if cell_len(text) <= width:
        return text
    if width < 8:
        return cut(text, width)
    head = (width - 1) // 3
    return set_cell_size(text, head) + ELLIPSIS + _ending(text, width - 1 - head)


def _ending(text: str, width: int) -> str:
    """The longest end of at most `width` cells; found from the end, however long the text is."""
    begin = len(text)
    while begin and (width := width - cell_len(text[begin - 1])) >= 0:
        begin -= 1
    return text[begin:]


def left(text: str, width: int) -> str:
    """Exactly `width` cells, filled on the right."""
    return set_cell_size(text, width)


def right(text: str, width: int) -> str:
    """At least `width` cells, filled on the left: numbers are never cut."""
    return " " * (width - cell_len(text)) + text


def bar(fraction: float, width: int) -> str:
    """A bar of exactly `width` cells, in steps of an eighth of a cell."""
    eighths = round(max(0.0, min(1.0, fraction)) * width * 8)
    whole, rest = divmod(eighths, 8)
    drawn = _EIGHTHS[8] * whole + (_EIGHTHS[rest] if rest else "")
    return drawn.ljust(width)


def short_command(command: str, width: int) -> str:
    """A command line in `width` cells: programs by name, workers by kind, long paths by their end.

    >>> short_command("/usr/bin/python3 /home/me/projects/trading/experiments/train.py -x", 60)
    'python3 …/experiments/train.py -x'
    """
    words = printable(command).split(" ")
    # [kworker/0:1] is a kernel thread, a quote begins a path with spaces
    program = words[0] if words[0][:1] in ("[", "'") else words[0].rpartition("/")[2]
    for kind in ("forkserver", "spawn", "resource_tracker", "popen_loky_posix"):
        if f"multiprocessing.{kind}" in command or f"backend.{kind}" in command:
            return cut(f"{kind.replace('_', ' ')} ({program})", width)
    return cut(" ".join([program, *map(_short_path, words[1:])]), width)


def _short_path(word: str) -> str:
    if "/" not in word or len(word) <= _LONG_PATH:
        return word
    return f"{ELLIPSIS}/{'/'.join(word.rsplit('/', 2)[-2:])}"


def wrapped(parts: list[str], width: int, separator: str = " · ") -> list[str]:
    """Lines of whole parts: a size is never parted from its unit."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}{separator}{part}" if lines else part
        if lines and cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines
