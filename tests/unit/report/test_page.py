"""The HTML around the data: nothing in a recording can break out, nothing foreign can run."""

import base64
import hashlib
import json
import re
from typing import Any

import pytest

from ramledger.report.html.page import SCRIPTS, embedded, encoded, page_html

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>",
    "\u2028\u2029\x00",
    "&lt;b&gt;",
    "\ud800",
]


def data_of(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_data_survives_and_cannot_end_its_block(text: str) -> None:
    run = {"recording": text, "command": text, "names": [text, {text: text}]}
    html = page_html([run])
    assert data_of(html)["runs"] == [run]
    block = html[html.index('id="data">') + 10 :].partition("</script>")[0]
    assert not set("<>&") & set(block)
    assert block.isascii()
    title = html[html.index("<title>") :].partition("</title>")[0]
    assert "<script" not in title


def test_numbers_that_json_has_not_become_null() -> None:
    assert json.loads(encoded({"a": [float("nan"), float("inf"), 1.5]})) == {"a": [None, None, 1.5]}
    assert embedded("a<b") == '"a\\u003cb"'


def test_only_our_script_and_style_may_run() -> None:
    html = page_html([{"recording": "x"}])
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    assert "unsafe" not in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    assert "connect-src 'self'" in page_html([{"recording": "x"}], live=True)
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]


def test_no_address_no_handler_and_no_markup_from_strings() -> None:
    html = page_html([{"recording": "x"}])
    assert re.findall(r"https?://[^'\" )]+", html) == ["http://www.w3.org/2000/svg"] * 2
    script = html[html.rindex("<script>") :]
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in script
    assert len(SCRIPTS) == len(set(SCRIPTS))
