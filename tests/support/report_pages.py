"""Pages of made-up and of real runs, written where a browser finds them."""

import lzma
from collections.abc import Iterable
from pathlib import Path

from ramledger.events import Event
from ramledger.report.html.page import page_html
from ramledger.report.html.page_data import page_documents
from ramledger.run.model import Run
from tests.support.report_events import recorded

_RECORDINGS = Path(__file__).parents[1] / "corpus" / "recordings"


def written(folder: Path, *runs: Iterable[Event]) -> str:
    """The address of a page with these runs."""
    found = [
        recorded(events, path=f"run{number}.ledger.jsonl") for number, events in enumerate(runs)
    ]
    return page_of(folder, *found)


def page_of(folder: Path, *runs: Run) -> str:
    path = folder / "page.html"
    path.write_text(page_html(page_documents(runs)), encoding="utf-8")
    return path.as_uri()


def real_run(name: str, folder: Path) -> Run:
    """A recording of the corpus, such as `leaky_late_beside_filling-marked`."""
    path = folder / f"{name}.ledger.jsonl"
    path.write_bytes(lzma.decompress((_RECORDINGS / f"{name}.jsonl.xz").read_bytes()))
    return Run.read(str(path))
