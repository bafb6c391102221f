"""The page of a run as one HTML file: no request leaves it, no script but ours can run in it.

What comes from a recording is data in a JSON block that cannot be broken out of, and the script
inserts it as text only. Scripts and styles are allowed by their hash (Content-Security-Policy).
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from ramledger.ledger import printable

SCRIPTS = (
    "format.js",
    "model.js",
    "chart.js",
    "statement.js",
    "growth.js",
    "owners.js",
    "objects.js",
    "workers.js",
    "advice.js",
    "verdict_card.js",
    "compare_runs.js",
    "findings.js",
    "app.js",
)
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M2 14V9h3v5M7 14V5h3v9M12 14V2h2v12' fill='none' stroke='%230072b2' "
    "stroke-width='2'/%3E%3C/svg%3E"
)


def page_html(runs: Sequence[Mapping[str, Any]], *, live: bool = False) -> str:
    """The page of one run, or of two to compare; `live` when it is served and may ask for more."""
    script = "\n".join(_part(name) for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n}})();\n'
    style = _part("page.css")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            f"connect-src {_connections(live)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    title = printable(" / ".join(str(run.get("recording") or "run") for run in runs))
    data = embedded({"live": live, "runs": list(runs)})
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<title>{escape(title)} · ramledger</title>\n<link rel="icon" href="{_ICON}">\n'
        f"<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This page draws its charts with a script of its own.</noscript>\n"
        f'<main id="page"></main>\n<script type="application/json" id="data">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _connections(live: bool) -> str:
    return "'self'" if live else "'none'"


def encoded(document: Any) -> str:
    """JSON in ASCII; a number that JSON does not have becomes null."""
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False)
    except ValueError:
        loose = json.loads(json.dumps(document), parse_constant=lambda _: None)
        return json.dumps(loose, separators=(",", ":"))


def embedded(document: Any) -> str:
    """JSON that can stand in a script block: nothing in it ends the block or begins a comment."""
    text = encoded(document)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _part(name: str) -> str:
    return (files("ramledger.report.html") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
