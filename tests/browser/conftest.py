"""One browser for the tests of a file."""

from collections.abc import Iterator

import pytest

from tests.support.chromium import Page, open_page


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_page() as tab:
        tab.resize(1280, 900)
        yield tab
