"""A leak on the page: one loud color, growth from the first iteration, the chain, words."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ramledger.diagnose.verdict import diagnose
from ramledger.events import Event, ProcessEvent, SampleEvent, SnapshotEvent
from tests.support.chromium import CHROMIUM, Page
from tests.support.report_events import (
    HEADER,
    MIB,
    entry,
    generation,
    leaking_run,
    phase,
    recorded,
    run_end,
)
from tests.support.report_pages import page_of, real_run, written

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

REAL = "leaky_late_beside_filling-marked"  # League.snapshots, from iteration 8, beside a replay
CULPRIT = "variables/trainer.envs"
CONSTANTS = ("imports/torch", "libraries/torch", "libraries/numpy", "python/startup")
# how far the channels of a color are apart: of all that is drawn, and of the palette
LOUDNESS = """
(() => {
  const pixel = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const loudness = (element) => {
    pixel.fillStyle = getComputedStyle(element).fill;
    pixel.fillRect(0, 0, 1, 1);
    const [r, g, b] = pixel.getImageData(0, 0, 1, 1).data;
    return Math.max(r, g, b) - Math.min(r, g, b);
  };
  const chart = document.querySelector('.chart');
  const palette = [...Array(20).keys()].map((number) => {
    const path = document.createElementNS(chart.namespaceURI, 'path');
    path.setAttribute('class', 'paint k' + number);
    chart.append(path);
    return ['palette ' + number, loudness(path)];
  });
  return Object.fromEntries([...document.querySelectorAll('path.band')]
    .map((band) => [band.dataset.band, loudness(band)]).concat(palette));
})()
"""


def crowded(cache: str = "variables/cache") -> Iterator[Event]:
    """The leak beside four accounts that stay and one that grows a little."""
    for event in leaking_run():
        if not isinstance(event, SnapshotEvent):
            yield event
            continue
        more = [entry(name, 2 * MIB) for name in CONSTANTS]
        more.append(entry(cache, (event.generation or 0) * MIB))
        entries = (*event.statement.entries, *more)
        yield replace(event, statement=replace(event.statement, entries=entries))


def opened(page: Page, address: str) -> Page:
    page.problems.clear()
    page.call("Page.navigate", url="about:blank")
    page.open(address)
    return page


@pytest.fixture
def leak(page: Page, tmp_path: Path) -> Iterator[Page]:
    yield opened(page, written(tmp_path, [*crowded(), run_end()]))
    assert page.problems == []


@pytest.fixture
def real(page: Page, tmp_path: Path) -> Iterator[Page]:
    yield opened(page, page_of(tmp_path, real_run(REAL, tmp_path)))
    assert page.problems == []


def texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.run(
        f"[...document.querySelectorAll({selector!r})].map(e => e.innerText ?? e.textContent)"
    )
    return found


# ---- colors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("growth", [True, False])
def test_the_culprit_is_the_only_loud_color(leak: Page, dark: bool, growth: bool) -> None:
    leak.resize(1280, 900, dark=dark)
    try:
        if not growth:
            leak.run("document.querySelector('[data-tool=growth]').click()")
        loudness: dict[str, int] = leak.run(LOUDNESS)
    finally:
        leak.resize(1280, 900)
    loudest = loudness.pop(CULPRIT)
    assert loudness["variables/cache"] > 0
    assert len(set(loudness)) > 20
    assert loudest > 1.4 * max(loudness.values())


def test_an_account_has_one_color_on_every_page(page: Page, tmp_path: Path) -> None:
    color = "document.querySelector('.legend [data-band=\"variables/cache\"] .swatch').className"
    opened(page, written(tmp_path, list(crowded())))
    first = page.run(color)
    others = [event for event in crowded() if not _is_early(event)]
    opened(page, written(tmp_path, others))
    assert page.run(color) == first
    opened(page, written(tmp_path, list(crowded("variables/other_cache"))))
    assert page.run(color.replace("variables/cache", "variables/other_cache")) != first


def _is_early(event: Event) -> bool:
    return isinstance(event, SnapshotEvent) and event.t < 10


def test_constant_accounts_are_gray_and_one_row_until_unfolded(leak: Page) -> None:
    rows = "#statement tbody tr"
    # the replay buffer is half full and stays so
    names = (*CONSTANTS, "replay/observations")
    folded = f"… {len(names)} constant accounts"
    assert folded in texts(leak, ".legend .fold")
    assert any(folded in row for row in texts(leak, rows))
    assert not any("imports/torch" in row for row in texts(leak, rows))
    leak.run("document.querySelector('#statement .fold').click()")
    assert all(any(name in row for row in texts(leak, rows)) for name in names)
    keys = leak.run(
        "[...document.querySelectorAll('.legend [data-band]')]"
        ".map(k => [k.dataset.band, k.querySelector('.swatch').className])"
    )
    gray = {name for name, color in keys if "k-constant" in color}
    assert gray >= set(names)
    assert "variables/cache" not in gray
    sizes = leak.run(f"[...document.querySelectorAll('{rows}')].map(r => +r.dataset.bytes)")
    assert sum(sizes) == leak.run("+document.querySelector('#statement tfoot tr').dataset.rss")
    leak.run("document.querySelector('.legend .fold').click()")
    assert not any("imports/torch" in row for row in texts(leak, rows))


# ---- growth ------------------------------------------------------------------------------------


def test_growth_is_counted_from_the_first_iteration_and_can_be_switched(leak: Page) -> None:
    axis = "document.querySelector('.axes').textContent"
    assert leak.run("document.querySelector('[data-tool=growth]').ariaPressed") == "true"
    # 30 MiB of workers and 116 after the first iteration
    assert "the 146.0 MiB that were there are subtracted" in texts(leak, "#about-chart")[0]
    assert "+100 MiB" in leak.run(axis)
    begins, zero = leak.run(
        "[+document.querySelector('.total').getAttribute('d').split(/[ L]/)[1],"
        " +[...document.querySelectorAll('.axes text')].find(t => t.textContent === '0')"
        ".getAttribute('y') - 4]"
    )
    assert begins == pytest.approx(zero, abs=1)
    assert "leaks since iteration 0" in leak.run("document.querySelector('.onset').textContent")
    leak.run("document.querySelector('[data-tool=growth]').click()")
    assert "+100 MiB" not in leak.run(axis)
    assert "200 MiB" in leak.run(axis)


def test_without_a_leak_all_memory_is_shown(page: Page, tmp_path: Path) -> None:
    kept = [event for event in leaking_run() if isinstance(event, ProcessEvent | SampleEvent)]
    opened(page, written(tmp_path, [event for event in kept if event.t < 20]))
    assert page.run("document.querySelector('[data-tool=growth]').ariaPressed") == "false"
    assert texts(page, "#about-chart") == ["All memory of the run."]
    assert page.run("document.querySelectorAll('.onset, .k-culprit').length") == 0


def test_the_onset_is_where_the_verdict_says(real: Page) -> None:
    assert texts(real, ".onset text") == ["leaks since iteration 8"]
    onset, first = real.run(
        "[document.querySelector('.onset line').getBoundingClientRect().left,"
        " document.querySelector('.total').getBoundingClientRect().left]"
    )
    assert onset > first + 50


# ---- who, where, how much ----------------------------------------------------------------------


def test_the_chain_ends_with_what_is_kept_and_marks_the_reference(real: Page) -> None:
    assert texts(real, ".holders li .path") == ["League", ".snapshots", "each a numpy.ndarray"]
    (leaking,) = texts(real, ".holders li.leaking")
    assert "19 elements, +1 an iteration" in leaking
    assert texts(real, ".reason")[0] == (
        "leaky_late_beside_filling.py:32 adds to League.snapshots, which is never cleared"
    )
    assert texts(real, ".source b") == ["leaky_late_beside_filling.py:32"]


def test_a_number_of_the_evidence_leads_to_its_account_in_the_chart(leak: Page) -> None:
    leak.run("window.scrollTo(0, 0); 1")
    rows = leak.run(
        "[...document.querySelectorAll('.numbers .to-chart')].map(b => b.dataset.account)"
    )
    assert rows[:2] == [CULPRIT, "variables/cache"]
    leak.run("document.querySelector('.numbers [data-account=\"variables/cache\"]').click()")
    bright = "[...document.querySelectorAll('path.band:not(.faded)')].map(b => b.dataset.band)"
    assert leak.run(bright) == ["variables/cache"]
    assert texts(leak, ".legend .chosen") == ["variables/cache"]
    leak.wait_for("document.querySelector('#memory').getBoundingClientRect().top < 10")
    leak.run("document.querySelector('[data-tool=zoom-out]').click()")
    assert len(leak.run(bright)) > 1


def test_a_constant_account_of_the_growth_table_is_unfolded_to_be_shown(leak: Page) -> None:
    leak.run("document.querySelectorAll('#growth-table .more').forEach(b => b.click())")
    leak.run(
        "[...document.querySelectorAll('#growth-table .link')]"
        ".find(b => b.innerText === 'libraries/torch').click()"
    )
    assert texts(leak, ".legend .chosen") == ["libraries/torch"]


# ---- heat map ----------------------------------------------------------------------------------


def test_the_heat_map_begins_at_the_phase_and_the_onset_of_the_verdict(real: Page) -> None:
    assert texts(real, ".heat-name.culprit") == ["▲ snapshot"]
    chosen = real.run("document.querySelector('.cell.chosen').ariaLabel")
    assert chosen.startswith("snapshot, iteration ")
    assert int(chosen.split()[2].rstrip(":")) >= 8
    assert texts(real, ".heat-head")[:3] == ["0", "", "2"]


def test_a_column_of_several_iterations_says_which(page: Page, tmp_path: Path) -> None:
    level, events = 100 * MIB, list(leaking_run(1))
    for number in range(1, 300):
        events.append(phase(4.0 * number + 3, number, "evaluate", level, level + MIB))
        events.append(generation(4.0 * number + 3.9, number, level + MIB))
        level += MIB
    opened(page, written(tmp_path, events))
    labels = page.run("[...document.querySelectorAll('.heat .cell')].map(c => c.ariaLabel)")
    assert "evaluate, iterations 3\u20135: +3.0 MiB" in labels
    assert "its label says which" in texts(page, "#growth")[0]
    assert page.problems == []


# ---- words -------------------------------------------------------------------------------------


def test_accounts_iterations_and_times_are_said_in_words(page: Page, tmp_path: Path) -> None:
    page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    try:
        opened(page, written(tmp_path, list(crowded())))
        assert texts(page, ".started") == ["9 Oct 2025, 17:53:20 GMT+9"]
    finally:
        page.call("Emulation.setTimezoneOverride", timezoneId="")
    assert texts(page, ".iteration-words") == ["An iteration here is one pass through all phases."]
    page.run("document.querySelector('.legend .fold').click()")
    rows = texts(page, "#statement tbody tr")
    assert any("what importing torch costs" in row for row in rows)
    assert any("not attributed to anything yet" in row for row in rows)
    page.run("document.querySelector('.fold').click()")


@pytest.mark.parametrize("width", [1280, 390])
def test_no_word_of_the_page_needs_our_own_vocabulary(
    page: Page, tmp_path: Path, width: int
) -> None:
    page.resize(width, 900)
    try:
        runs = [real_run(name, tmp_path) for name in (REAL, "leaky_holes-marked")]
        for some in (runs[:1], runs):
            opened(page, page_of(tmp_path, *some))
            text = page.run(
                "document.body.innerText"
                " + [...document.querySelectorAll('[title]')].map(e => e.title).join(' ')"
            ).lower()
            for word in ("generation", " look ", " looks", "between looks", "had it gone on"):
                assert word not in text
            assert page.run("document.documentElement.scrollWidth") <= width
    finally:
        page.resize(1280, 900)


# ---- two runs ----------------------------------------------------------------------------------


def test_of_two_runs_the_change_comes_first_and_each_run_has_its_name(
    page: Page, tmp_path: Path
) -> None:
    before, after = list(crowded()), [_at_rest(event) for event in crowded()]
    header = replace(HEADER, command=("python", "fixed.py"), started_at=1760003600.0)
    runs = [
        recorded(before, path="old.ledger.jsonl"),
        recorded(after, header, path="new.ledger.jsonl"),
    ]
    assert diagnose(runs[1]).verdict == "healthy"
    opened(page, page_of(tmp_path, *runs))
    assert page.run("document.querySelector('main section').id") == "compare"
    assert page.run("document.querySelector('main h1').innerText").endswith("Fixed")
    sizes: list[Any] = page.run(
        "[...document.querySelectorAll('h1')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert sizes[0] == max(sizes)
    first, second = texts(page, ".run-card")
    assert ("old.ledger.jsonl" in first, "train.py" in first) == (True, True)
    assert ("new.ledger.jsonl" in second, "fixed.py" in second) == (True, True)
    assert "9 Oct 2025" in first
    owners = texts(page, "#compare table")[1]
    assert CULPRIT in owners
    assert "held by a variable of the program" in owners
    assert texts(page, ".tabs button") == ["before: old.ledger.jsonl", "after: new.ledger.jsonl"]
    # of growth, the other run begins where this one does
    lefts = page.run(
        "['.overlay', '.total'].map(p => document.querySelector(p).getBoundingClientRect().left)"
    )
    assert abs(lefts[0] - lefts[1]) < 2
    assert page.problems == []


def _at_rest(event: Event) -> Event:
    """The same run, in which nothing grows."""
    if isinstance(event, SnapshotEvent):
        entries = tuple(
            replace(row, resident_bytes=56 * MIB) if row.account == CULPRIT else row
            for row in event.statement.entries
            if row.account != "variables/cache"
        )
        resting = replace(event.statement, entries=entries, rss_bytes=116 * MIB)
        return replace(event, statement=resting, live_objects={}, containers=())
    if isinstance(event, SampleEvent):
        rows = {
            pid: replace(row, anon_bytes=min(row.anon_bytes, 116 * MIB))
            for pid, row in event.processes.items()
        }
        return replace(event, processes=rows, tree_pss_bytes=146 * MIB)
    changes = {
        name: min(size, 116 * MIB)
        for name in ("rss_bytes", "anon_bytes", "before_bytes", "after_bytes", "peak_bytes")
        if (size := getattr(event, name, None)) is not None
    }
    return replace(event, **changes)
