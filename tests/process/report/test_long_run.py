"""A day of 200 processes: read about as fast as it is parsed, shown on a small page."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ramledger.event_codec import decode
from ramledger.events import SampleEvent
from ramledger.recording import Recording
from ramledger.report.html.page import page_html
from ramledger.report.html.page_data import detail_data, page_data
from ramledger.report.html.page_series import MAX_POINTS
from ramledger.report.html.page_snapshots import MAX_MAIN_SNAPSHOTS
from ramledger.run.model import Run
from tests.support.long_run import GENERATIONS, PROCESSES, long_run
from tests.support.report_events import (
    MIB,
    lines_of,
    recorded,
)

pytestmark = pytest.mark.xdist_group("day")


@pytest.fixture(scope="module")
def day() -> Run:
    return recorded(long_run())


@pytest.fixture(scope="module")
def day_page(day: Run) -> dict[str, Any]:
    return page_data(day, None)


def test_a_day_of_200_processes_is_a_page_below_2_megabytes(
    day_page: dict[str, Any],
) -> None:
    page = day_page
    assert len(page["series"]["t"]) <= MAX_POINTS + 1
    assert len(page["series"]["processes"]) == PROCESSES
    assert len(page["snapshots"]) <= MAX_MAIN_SNAPSHOTS
    assert len(page_html([page])) < 2_000_000


def test_thinning_keeps_peaks_ends_and_sums(day: Run, day_page: dict[str, Any]) -> None:
    page = day_page
    series = page["series"]
    assert max(series["high"]) == page["peak"]["bytes"]
    assert series["t"][-1] == pytest.approx(24 * 3600 * 1999 / 2000)
    written = {round(e.t, 3): e.tree_bytes for e in day.of_type(SampleEvent)}
    assert all(written[t] == size for t, size in zip(series["t"], series["level"], strict=True))
    heat = page["growth"]["heat"]
    evaluate = heat["cells"][heat["rows"].index("evaluate")]
    assert sum(evaluate) == GENERATIONS * MIB // 4


def test_a_stretch_is_there_in_full_detail(day: Run) -> None:
    begin, end = 3600.0, 7200.0
    detail = detail_data(day, begin, end)
    written = [e.t for e in day.of_type(SampleEvent) if begin <= e.t <= end]
    assert detail["t"] == [round(t, 3) for t in written]


def test_a_day_of_200_processes_is_checked_about_as_fast_as_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "day.ledger.jsonl"
    lines = lines_of(long_run()).splitlines()
    path.write_text("".join(f"{line}\n" for line in lines))
    parsed = decoded = 0.0
    for at in range(1, len(lines), 500):  # by turns, so that a busy machine slows both
        some = lines[at : at + 500]
        began = time.process_time()
        documents = [json.loads(line) for line in some]
        middle = time.process_time()
        for document in documents:
            decode(document)
        parsed += middle - began
        decoded += time.process_time() - middle
    assert decoded < 7 * parsed
    found = Recording.read(str(path))
    assert len(found.events) == len(lines) - 1
    assert found.notes == ()
