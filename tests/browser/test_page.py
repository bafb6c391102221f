"""The page in a real browser: what is hovered, clicked, zoomed, toggled; what stays inert."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ramledger.diagnose.comparison import compare
from ramledger.diagnose.verdict import diagnose
from ramledger.events import ProcessEvent, RemedyEvent, SampleEvent
from ramledger.report.html.page import page_html
from ramledger.report.html.page_data import page_data, page_documents
from ramledger.report.plan_grade import with_plan
from ramledger.run.model import Run
from tests.support.chromium import CHROMIUM, Page
from tests.support.report_events import (
    MIB,
    PID,
    doubled_buffer,
    leaking_run,
    lines_of,
    process,
    recorded,
    sample,
    snapshot,
)
from tests.support.report_events import statement as statement_of
from tests.support.report_pages import page_of, written

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

SHIFT = 8  # a modifier in the DevTools protocol
XSS = "</script><img src=x onerror='window.broken=1'><script>window.broken=1</script>"


@pytest.fixture
def leaky(page: Page, tmp_path: Path) -> Iterator[Page]:
    page.problems.clear()
    page.requests.clear()
    address = written(tmp_path, list(leaking_run()))
    page.call("Page.navigate", url="about:blank")
    page.open(address)
    yield page
    assert page.problems == []
    assert {url for url in page.requests if not url.startswith("data:")} == {address}


def chart_point(page: Page, part: float) -> tuple[float, float]:
    """Coordinates in the middle of the plot, so far along the time axis."""
    page.run("document.querySelector('.chart').scrollIntoView({block: 'center'})")
    box = page.run(
        "(() => { const b = document.querySelector('.total').getBoundingClientRect();"
        " const c = document.querySelector('.chart').getBoundingClientRect();"
        " return [b.left, b.right, c.top + 150]; })()"
    )
    return box[0] + part * (box[1] - box[0]), box[2]


def statement(page: Page) -> tuple[list[int], int]:
    rows = page.run(
        "[...document.querySelectorAll('#statement tbody tr')].map(r => +r.dataset.bytes)"
    )
    return rows, page.run("+document.querySelector('#statement tfoot tr').dataset.rss")


def test_the_verdict_is_the_first_thing(leaky: Page) -> None:
    words = leaky.run("document.querySelector('#verdict').innerText")
    assert "Leak" in words
    assert "16.0 MiB an iteration" in words
    sections = leaky.run("[...document.querySelectorAll('main section')].map(s => s.id)")
    assert sections[:3] == ["verdict", "advice", "memory"]
    assert "What to do" in leaky.run("document.querySelector('#advice').innerText")


def test_what_to_do_has_its_saving_and_a_command(page: Page, tmp_path: Path) -> None:
    events = list(doubled_buffer())
    said = RemedyEvent(t=0.2, pid=PID, name="rollout", text="not copied", saves_bytes=9 * MIB)
    events += [said, replace(said, text=XSS, is_applied=False)]
    page.problems.clear()
    page.open(written(tmp_path, events))
    words = page.run("document.querySelector('#advice').innerText")
    assert "What to do" in words
    assert "store each observation once" in words
    assert "saves 80.0 MiB" in words
    command = page.run("document.querySelector('#advice code').textContent")
    assert command == "ramledger run --apply replay -- python train.py --seed 3"
    assert "rollout: not copied, promised 9.0 MiB; not applied: </script>" in words
    assert page.run("window.broken") is None
    sections = "[...document.querySelectorAll('main section')].map(s => s.id)"
    assert page.run(sections)[:2] == ["verdict", "advice"]
    page.resize(420, 900)
    assert page.run("document.documentElement.scrollWidth <= 420")
    page.resize(1280, 900)


def test_a_known_leak_has_a_link_in_the_verdict(page: Page, tmp_path: Path) -> None:
    (document,) = page_documents([recorded(list(leaking_run()))])
    leak = next(one for one in document["verdict"]["findings"] if one["kind"] == "leak")
    assert leak["known"] == []
    link = "https://github.com/numpy/numpy/issues/30547"
    leak["known"] = [
        {"text": f"numpy 2.4.0 leaks {XSS}", "link": link},
        {"text": "a link that is none", "link": "javascript:window.broken=1"},
    ]
    path = tmp_path / "page.html"
    path.write_text(page_html([document]), encoding="utf-8")
    page.problems.clear()
    page.open(path.as_uri())
    links = "[...document.querySelectorAll('#verdict .known a')]"
    found = page.run(f"{links}.map(a => [a.href, a.rel])")
    assert found == [[link, "noopener noreferrer"]]
    assert XSS in page.run("document.querySelector('#verdict .known').textContent")
    assert page.run("window.broken") is None
    assert page.problems == []


@pytest.mark.parametrize("part", [0.02, 0.31, 0.5, 0.77, 0.99])
def test_hovering_shows_a_statement_that_sums_to_rss(leaky: Page, part: float) -> None:
    leaky.mouse("mouseMoved", *chart_point(leaky, part))
    rows, rss = statement(leaky)
    assert sum(rows) == rss
    # the tree at that instant: 30 MiB of workers, 100 and 16 an iteration
    assert (rss - 130 * MIB) % (16 * MIB) == 0
    assert abs((rss - 130 * MIB) / (16 * MIB) - 10 * part) <= 1


def test_an_account_can_be_hidden_and_shown(leaky: Page) -> None:
    name = "variables/trainer.envs"
    bands = f"document.querySelectorAll('path[data-band=\"{name}\"]').length"
    button = f"document.querySelector('.legend [data-band=\"{name}\"]')"
    assert leaky.run(bands) == 1
    leaky.run(f"{button}.click()")
    assert leaky.run(bands) == 0
    assert leaky.run(f"{button}.getAttribute('aria-pressed')") == "false"
    leaky.run(f"{button}.click()")
    assert leaky.run(bands) == 1


def test_dragging_zooms_and_a_button_shows_all(leaky: Page) -> None:
    times = "[...document.querySelectorAll('.axes text')].map(t => t.textContent).join(' ')"
    before = leaky.run(times)
    leaky.mouse("mouseMoved", *chart_point(leaky, 0.4))
    leaky.mouse("mousePressed", *chart_point(leaky, 0.4))
    leaky.mouse("mouseMoved", *chart_point(leaky, 0.5))
    leaky.mouse("mouseReleased", *chart_point(leaky, 0.5))
    assert leaky.run(times) != before
    leaky.run("document.querySelector('[data-tool=zoom-out]').click()")
    assert leaky.run(times) == before


def test_logarithmic_and_reserved(leaky: Page) -> None:
    assert leaky.run("document.querySelector('[data-tool=log]')") is None  # growth may be negative
    leaky.run("document.querySelector('[data-tool=growth]').click()")
    leaky.run("document.querySelector('[data-tool=log]').click()")
    assert leaky.run("document.querySelectorAll('path.line').length") > 2
    leaky.run("document.querySelector('[data-tool=log]').click()")
    leaky.run("document.querySelector('[data-tool=reserved]').click()")
    assert leaky.run("document.querySelectorAll('path.reserved').length") == 1


def test_two_instants_are_compared_and_linked_to(leaky: Page) -> None:
    leaky.click(*chart_point(leaky, 0.25))
    leaky.click(*chart_point(leaky, 0.85), modifiers=SHIFT)
    words = leaky.run("document.querySelector('#differences').innerText")
    assert "trainer.envs" in words
    link = leaky.run("location.hash")
    assert "a=" in link
    assert "b=" in link
    pinned = leaky.run("document.querySelectorAll('line.pin').length")
    leaky.run("window.isOld = true; location.reload()")
    leaky.wait_for("!window.isOld && !!document.querySelector('#differences')")
    assert leaky.run("document.querySelectorAll('line.pin').length") == 2
    assert pinned == 2
    assert leaky.run("document.querySelector('#differences').innerText") == words


def test_a_click_on_the_heat_map_says_what_grew_there(leaky: Page) -> None:
    leaky.run("document.querySelectorAll('.heat .cell')[5].click()")
    words = leaky.run("document.querySelector('#growth .detail').innerText")
    assert "iteration 5" in words
    assert "trainer.envs" in words
    assert "TradingEnvironment" in words


def test_the_growth_table_is_that_of_the_verdict(page: Page, tmp_path: Path) -> None:
    run = recorded(leaking_run())
    page.open(page_of(tmp_path, run))
    found = diagnose(run)
    if page.run("document.querySelectorAll('#growth-table .more').length"):
        page.run("document.querySelector('#growth-table .more').click()")
    shown = page.run(
        "[...document.querySelectorAll('#growth-table [data-growth]')]"
        ".map(e => [e.textContent, +e.dataset.growth, +e.dataset.rate])"
    )
    assert found.growth_total is not None
    lines = [line.to_dict() for line in (*found.growth, found.growth_total)]
    assert shown == [
        [line["account"], line["growth_bytes"], line["bytes_per_generation"]] for line in lines
    ]
    assert "143.8 MiB" in page.run("document.querySelector('#growth-table tfoot').innerText")


def test_the_phase_of_the_leak_is_marked_and_chosen(leaky: Page) -> None:
    assert leaky.run("document.querySelector('.heat-name.culprit').innerText") == "▲ evaluate"
    words = leaky.run("document.querySelector('#growth .detail h3').innerText")
    assert words.startswith("evaluate, iteration")
    caption = leaky.run("document.querySelector('#growth .caption').innerText")
    assert "the rows sum to the growth of RSS, +144.0 MiB" in caption
    assert "The verdict's rate, 16.0 MiB an iteration" in caption


def test_the_keyboard_is_enough(leaky: Page) -> None:
    leaky.run("document.querySelector('.chart').focus()")
    leaky.key("Home")
    rows, first = statement(leaky)
    for _ in range(3):
        leaky.key("ArrowRight")
    leaky.key("Enter")
    leaky.key("End")
    leaky.key("b")
    rows, last = statement(leaky)
    assert (first, last) == (130 * MIB, 290 * MIB)
    assert sum(rows) == last
    assert leaky.run("document.querySelectorAll('line.pin').length") == 2


def test_a_process_can_be_looked_at_alone(leaky: Page) -> None:
    leaky.run("[...document.querySelectorAll('#workers button')].at(-1).click()")
    rows, rss = statement(leaky)
    assert rss in (10 * MIB, 20 * MIB)
    assert rows == [rss]


def test_objects_beyond_what_was_expected_are_marked(leaky: Page) -> None:
    words = leaky.run("document.querySelector('#objects').innerText")
    assert "18 TradingEnvironment instead of 2" in words
    assert leaky.run("document.querySelectorAll('#objects .bad .expected').length") == 1


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(leaky: Page, width: int) -> None:
    leaky.resize(width, 900)
    try:
        leaky.wait_for(f"document.querySelector('.chart').clientWidth < {width}")
        assert leaky.run("document.documentElement.scrollWidth") <= width
    finally:
        leaky.resize(1280, 900)


def test_text_of_strangers_stays_text(page: Page, tmp_path: Path) -> None:
    text = lines_of(leaking_run())
    names = ("trainer.envs", "TradingEnvironment", "evaluate", "python worker")
    assert all(name in text for name in names)
    for name in names:
        text = text.replace(name, json.dumps(XSS)[1:-1])
    path = tmp_path / "run.ledger.jsonl"
    path.write_text(text)
    page.problems.clear()
    page.open(page_of(tmp_path, Run.read(str(path))))
    page.run("document.querySelectorAll('.heat .cell')[3].click()")
    page.mouse("mouseMoved", *chart_point(page, 0.5))
    assert page.run("window.broken === undefined")
    assert page.run("document.images.length") == 0
    assert page.run("document.scripts.length") == 2
    assert "onerror=" in page.run("document.querySelector('#growth').innerText")
    assert page.problems == []


def test_two_runs_lie_over_each_other(page: Page, tmp_path: Path) -> None:
    fixed = [
        event
        for event in leaking_run()
        if isinstance(event, ProcessEvent | SampleEvent) and event.t < 20
    ]
    page.problems.clear()
    page.open(written(tmp_path, list(leaking_run()), fixed))
    assert page.run("document.querySelectorAll('path.overlay').length") == 1
    assert page.run("document.querySelector('main section').id") == "compare"
    words = page.run("document.querySelector('#compare').innerText")
    assert "run0.ledger.jsonl" in words
    assert "run1.ledger.jsonl" in words
    found = compare(*(diagnose(recorded(run)) for run in (leaking_run(), fixed)))
    assert found.sentence in words
    assert page.run("document.querySelector('#compare h1 .change').innerText") == "Undecided"
    assert "16.0 MiB an iteration" in words
    page.run("document.querySelectorAll('.tabs button')[1].click()")
    page.mouse("mouseMoved", *chart_point(page, 0.2))
    rows, rss = statement(page)
    assert sum(rows) == rss
    assert page.run("document.querySelectorAll('#growth').length") == 0
    assert page.problems == []


def test_the_statement_can_be_copied_as_text(leaky: Page) -> None:
    permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    leaky.call("Browser.grantPermissions", permissions=permissions)
    leaky.run("document.querySelector('.chart').focus()")
    leaky.key("End")
    leaky.run("[...document.querySelectorAll('footer button')][0].click()")
    leaky.wait_for("[...document.querySelectorAll('footer button')][0].textContent === 'copied'")
    text = leaky.run("navigator.clipboard.readText()")
    assert text.startswith("python train.py --seed 3\n")
    assert text.rstrip().endswith("RSS                      290.0 MiB  100.0%")


def test_a_plan_stands_next_to_what_was_measured(page: Page, tmp_path: Path) -> None:
    document = page_data(recorded(leaking_run()), None)
    rows = [{"account": "replay", "bytes": 80 * MIB, "formula": "rows <b>x</b> bytes"}]
    plan = {"schema": "ramledger.plan/1", "peak_bytes": 232 * MIB, "accounts": rows}
    path = tmp_path / "page.html"
    path.write_text(page_html([with_plan(document, plan)]), encoding="utf-8")
    page.problems.clear()
    page.open(path.as_uri())
    words = page.run("document.querySelector('#findings').innerText")
    assert "25% above the plan" in words
    assert "rows <b>x</b> bytes" in words
    assert "-40.0 MiB" in words
    assert "25% above the plan" in page.run("document.querySelector('.facts').innerText")
    assert page.problems == []


def tiles(page: Page) -> list[int]:
    return [
        int(size)
        for size in page.run(
            "[...document.querySelectorAll('.treemap [data-bytes]')].map(t => t.dataset.bytes)"
        )
    ]


def test_owners_open_by_name_and_each_level_adds_up(page: Page, tmp_path: Path) -> None:
    sizes = {"run.agent.log": 30, "run.agent.replay": 50, "run.env.frames": 7, "LIMITS": 3}
    accounts = {f"variables/t.py:{name}": size * MIB for name, size in sizes.items()}
    accounts |= {"libraries/torch": 20 * MIB, "libraries/numpy": 5 * MIB, "optimizer": 8 * MIB}
    document = statement_of(accounts, rss_bytes=sum(accounts.values()))
    events = [*leaking_run(), snapshot(3.0, document, generation=2)]
    page.call("Page.navigate", url="about:blank")
    page.open(written(tmp_path, events) + "#a=3")
    page.run(
        "window.open_tile = (name) => [...document.querySelectorAll('.treemap button.tile')]"
        ".find(b => b.title.split('\\n')[0].endsWith(name)).click(); 1"
    )
    everything = tiles(page)
    assert {90 * MIB, 25 * MIB, 8 * MIB} <= set(everything)
    page.run("open_tile('variables › t.py'); 1")
    assert sorted(tiles(page)) == [3 * MIB, 87 * MIB]
    page.run("open_tile('run › agent'); 1")
    assert sorted(tiles(page)) == [30 * MIB, 50 * MIB]
    assert "agent 80.0 MiB" in page.run("document.querySelector('.crumbs').innerText")
    page.run("document.querySelector('.crumbs button').click()")
    assert tiles(page) == everything


def test_workers_are_called_by_their_name_and_node(page: Page, tmp_path: Path) -> None:
    events = list(leaking_run())
    events.append(process(77, "ray::worker", name="env runner 3", node="10.0.0.7"))
    events.append(sample(1.0, {PID: 100 * MIB, 77: 40 * MIB}))
    page.call("Page.navigate", url="about:blank")
    page.open(written(tmp_path, events))
    words = page.run("document.querySelector('#workers').innerText")
    assert "env runner 3" in words
    assert "node 10.0.0.7" in words
