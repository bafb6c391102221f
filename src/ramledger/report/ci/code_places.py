"""Where in a checkout the lines of a recording are: it has their text, but only names of files."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

_PLACE = re.compile(r"(?P<file>[^/:]+\.py):(?P<line>[1-9]\d{0,6}) in [^:]*(?:: (?P<text>.*))?")
_NO_SOURCES = frozenset({"node_modules", "site-packages", "__pycache__", "build", "dist"})
_MOST_FILES = 50_000
_LARGEST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class CodePlace:
    """`train.py:29 in Journal.log: self.pages.append(page)`, in parts."""

    file: str
    line: int
    text: str


def code_place(line: str) -> CodePlace | None:
    """None where it names no line of a file."""
    found = _PLACE.fullmatch(line)
    return CodePlace(found["file"], int(found["line"]), found["text"] or "") if found else None


def path_in(folder: str, place: CodePlace) -> str:
    """The one file below `folder` of that name with that text on that line; '' otherwise."""
    paths = [path for path in _files_named(folder, place.file) if _has_line(path, place)]
    return os.path.relpath(paths[0], folder) if len(paths) == 1 else ""


def _files_named(folder: str, name: str) -> Iterator[str]:
    seen = 0
    for where, folders, files in os.walk(folder):
        seen += len(files)
        if seen > _MOST_FILES:
            return
        is_environment = "pyvenv.cfg" in files
        folders[:] = [] if is_environment else [one for one in folders if _may_hold_sources(one)]
        if name in files and not is_environment:
            yield os.path.join(where, name)


def _may_hold_sources(folder: str) -> bool:
    return not folder.startswith(".") and folder not in _NO_SOURCES


def _has_line(path: str, place: CodePlace) -> bool:
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _LARGEST_BYTES:
            return False
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    if not place.text:
        return place.line <= len(lines)
    text = " ".join(lines[place.line - 1].split()) if place.line <= len(lines) else ""
    return bool(text) and text.startswith(place.text.removesuffix("…"))
