"""`ramledger.report(recording) -> path`: the page of a run as a file, beside its recording."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ramledger.errors import ConfigError, RecordingError
from ramledger.recording import SUFFIX
from ramledger.report.html.page import page_html
from ramledger.report.html.page_data import page_documents
from ramledger.run.model import Run
from ramledger.user_files import has_mark, write_whole

_MARK = b"\xc2\xb7 ramledger</title>"  # of every page of ours

Path = str | os.PathLike[str]


def report(*recordings: Path, out: Path | None = None, force: bool = False) -> str:
    """Write the page of a recording, or of two to compare them, and return its path.

    By default it is beside the first one, as NAME.html. A page of ours is replaced; any other file
    only with `force`.
    """
    paths = [os.fspath(path) for path in recordings]
    require_one_or_two(paths)
    documents = page_documents([Run.read(path) for path in paths])
    return write_page(documents, os.fspath(out) if out else beside(paths[0]), force=force)[0]


def require_one_or_two(recordings: Sequence[str]) -> None:
    """A page has room for no more."""
    if not 1 <= len(recordings) <= 2:
        raise ConfigError(
            "a report shows one recording or compares two", hint="give at most two recordings"
        )


def write_page(
    documents: Sequence[Mapping[str, Any]], path: str, *, force: bool
) -> tuple[str, int]:
    """Whole or not at all; a page of ours is replaced, nothing else is. Its path and size."""
    is_ours = has_mark(path, _MARK, within_bytes=4096)
    if not force and os.path.lexists(path) and not is_ours:
        raise RecordingError(
            f"{path} exists already and is no page of ramledger",
            hint="choose another name with --out, or --force",
        )
    html = page_html(documents).encode()
    write_whole(
        path,
        html,
        force=force or is_ours,
        error=RecordingError,
        hint="choose another place with --out",
    )
    return path, len(html)


def beside(recording: str) -> str:
    """NAME.html of NAME.ledger.jsonl."""
    return recording.removesuffix(SUFFIX) + ".html"
