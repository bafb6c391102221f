"""What was tried, as a table on the terminal and in docs/torture.md."""

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from tests.support.places import ROOT
from tests.torture.tries import Row

PAGE = ROOT / "docs" / "torture.md"
_BEGIN, _END = "<!-- table -->\n", "<!-- end of the table -->\n"
_MOST_REASONS = 20


def lines(rows: Sequence[Row]) -> list[str]:
    """The table in Markdown, and below it why something failed or was left out."""
    found = ["| what | tries | failures | remarks |", "|---|---|---|---|"]
    for row in rows:
        remark = row.remark
        if row.skipped:
            remark = "; ".join(filter(None, (remark, f"{len(row.skipped)} left out")))
        found.append(f"| {row.what} | {row.tries} | {len(row.failures)} | {remark} |")
    found += _reasons("Failed:", [text for row in rows for text in row.failures])
    found += _reasons("Left out:", [text for row in rows for text in row.skipped])
    return found


def _reasons(title: str, texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    shown = [f"- {_plain(text)}" for text in texts[:_MOST_REASONS]]
    if len(texts) > _MOST_REASONS:
        shown.append(f"- and {len(texts) - _MOST_REASONS} more")
    return ["", title, "", *shown]


def _plain(text: str) -> str:
    """On one line, without folders of this machine."""
    return re.sub(r"(?<![\w.])/\S+/(?=\S)", "…/", " ".join(text.split()))


def write(rows: Sequence[Row], seed: int, seconds: float, page: Path = PAGE) -> None:
    """Replace the table of the page."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    system = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}"
    told = f"Python {platform.python_version()}, {system}; seed {seed}; {seconds / 60:.0f} minutes."
    table = "\n".join([*lines(rows), "", told, ""])
    page.write_text(f"{before}{_BEGIN}\n{table}\n{_END}{after}", encoding="utf-8")
