"""Lines of the program's source, by file and number, without keeping whole files."""

import linecache
import os
from functools import lru_cache

from ramledger.descriptors import read_kernel_file

_MOST_CHARACTERS = 100
_MOST_LINES_KEPT = 500
_LONGEST_FILE = 1 << 22


@lru_cache(maxsize=_MOST_LINES_KEPT)
def line_of_code(file: str, number: int, function: str) -> str:
    """`train.py:29 in Journal.log: self.pages.append(page)`; without text where it has no file."""
    place = place_of_code(file, number, function)
    text = " ".join(_text(file, number).split())
    if len(text) > _MOST_CHARACTERS:
        text = text[: _MOST_CHARACTERS - 1] + "…"
    return f"{place}: {text}" if text else place


def place_of_code(file: str, number: int, function: str) -> str:
    """`train.py:29 in Journal.log`."""
    return f"{os.path.basename(file)}:{number} in {function}"


def lines_of(file: str) -> list[str]:
    """All lines of a file or of a notebook's cell; none where it cannot be read."""
    known = linecache.cache.get(file)
    if known is not None and len(known) == 4:  # a notebook's cell, or read by the program itself
        return list(known[2])
    try:
        if os.stat(file).st_size > _LONGEST_FILE:
            return []
        # not by open(), which takes the lowest free descriptor for a moment
        return read_kernel_file(file).decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return []


def _text(file: str, number: int) -> str:
    lines = lines_of(file)
    return lines[number - 1] if 0 < number <= len(lines) else ""
