"""The documentation as a newcomer opens it: from a disk, in a real browser, without a network."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.chromium import CHROMIUM, Page, open_page
from tests.support.places import ROOT

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.xdist_group("site"),
]

MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"
INSTALL_SECONDS = 240
WIDE, PHONE = (1280, 900), (390, 844)
NAVIGATION = ".md-nav--primary .md-nav__link[href]"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, in a folder of its own."""
    _install()
    folder = tmp_path_factory.mktemp("documentation") / "site"
    subprocess.run(
        [MKDOCS, "build", "--quiet", "--site-dir", folder],
        cwd=ROOT, check=True, timeout=200, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    return folder


def _install() -> None:
    """mkdocs in its environment, or the reason why the tests are skipped."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    try:
        done = subprocess.run(
            ["make", ".venv-docs/.installed"],
            cwd=ROOT, capture_output=True, text=True, timeout=INSTALL_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"the docs environment was not installed in {INSTALL_SECONDS} s")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["make failed"]
        pytest.skip(f"the docs environment cannot be installed: {lines[-1]}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with open_page() as tab:
        yield tab


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """A tab that must end without a complaint, and without having asked another computer."""
    browser.resize(*WIDE)
    browser.problems.clear()
    browser.requests.clear()
    yield browser
    assert browser.problems == []
    assert {url.partition(":")[0] for url in browser.requests} <= {"file", "data", "about"}


def go(page: Page, address: str) -> None:
    page.run("window.isOld = true")
    page.call("Page.navigate", url=address)
    arrive(page)


def arrive(page: Page) -> None:
    page.wait_for(
        "!window.isOld && document.readyState === 'complete' && !!document.querySelector('h1')"
    )


def test_the_navigation_leads_to_every_page_and_no_link_or_picture_is_broken(
    site: Path, page: Page
) -> None:
    go(page, (site / "index.html").as_uri())
    addresses = page.run(f"[...document.querySelectorAll('{NAVIGATION}')].map(link => link.href)")
    visited = {check_page(page)}
    for address in addresses:
        if page.run("location.href") != address and "#" not in address:
            page.run(
                "window.isOld = true;"
                f" [...document.querySelectorAll('{NAVIGATION}')]"
                f".find(link => link.href === '{address}').click()"
            )
            arrive(page)
            visited.add(check_page(page))
    assert visited == {path.with_suffix(".html").name for path in (ROOT / "docs").glob("*.md")}


def check_page(page: Page) -> str:
    """The name of the page, which has text, all its pictures, and links that lead somewhere."""
    here = page.run("location.href")
    assert page.run("document.querySelector('article').innerText.length") > 200, here
    missing = page.run(
        "Promise.all([...document.images].map(i => i.decode().then(() => '', () => i.src)))"
    )
    assert not any(missing), (here, missing)
    links = page.run("[...document.links].map(link => link.href)")
    assert not [link for link in links if not leads_somewhere(link)], here
    return file_of(here).name


def file_of(address: str) -> Path:
    return Path(unquote(urlsplit(address).path))


def leads_somewhere(address: str) -> bool:
    """A file of the site, with the heading that is asked for; other hosts are not asked."""
    if not address.startswith("file:"):
        return True
    file, heading = file_of(address), unquote(urlsplit(address).fragment)
    if not file.is_file():
        return False
    return (
        not heading or re.search(rf'id="?{re.escape(heading)}["\s>]', file.read_text()) is not None
    )


@pytest.mark.parametrize("start", ["index.html", "cli.html"])
def test_search_works_from_a_disk(site: Path, page: Page, start: str) -> None:
    go(page, (site / start).as_uri())
    page.run("document.querySelector('input[name=query]').focus()")
    for letter in "leak":
        page.key(letter)
    page.wait_for("document.querySelectorAll('.md-search-result__item').length > 3")
    found = page.run(
        "[...document.querySelectorAll('.md-search-result__item a')].map(link => link.href)"
    )
    assert "diagnose.html" in {file_of(address).name for address in found}
    assert all(leads_somewhere(address) for address in found)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=lambda size: f"{size[0]}px")
def test_the_command_line_page_never_scrolls_sideways(
    site: Path, page: Page, size: tuple[int, int]
) -> None:
    page.resize(*size)
    go(page, (site / "cli.html").as_uri())
    wide = page.run(
        "[document.documentElement, ...document.querySelectorAll('article, article *')]"
        ".filter(part => part.clientWidth > 0 && part.scrollWidth > part.clientWidth)"
        ".map(part => part.outerHTML.slice(0, 200))"
    )
    assert page.run("innerWidth") == size[0]
    assert page.run("document.querySelectorAll('article li').length") > 100
    assert wide == []


def test_no_page_is_wider_than_a_phone(site: Path, page: Page) -> None:
    page.resize(*PHONE)
    wide = []
    for path in sorted(set(site.glob("*.html")) - {site / "404.html"}):  # that one is a server's
        go(page, path.as_uri())
        widths = page.run(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        if widths[0] > widths[1]:
            wide.append((path.name, *widths))
    assert wide == []
