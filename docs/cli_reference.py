"""Writes docs/cli.md: what `--help` says, verb by verb; `--check` tells if the page is behind.

Options are lists and commands are inline code, so that the page wraps on a narrow screen.
"""

import re
import sys
from pathlib import Path

from cyclopts import App

from ramledger.cli.main import build_app

PAGE = Path(__file__).with_name("cli.md")
# in the order of a run; what is new and not listed here comes last
ORDER = (
    "quickstart", "plan", "run", "explain", "watch", "diagnose", "report", "serve", "check-env",
    "train", "replay",
)  # fmt: skip
INTRODUCTION = """\
# Command line

`make docs` writes this page from the help texts.
`ramledger VERB --help` prints the same in a terminal.

Exit codes: 0 fine, 1 error, 2 usage, 3 problem found
(the plan does not fit, the run leaks, a target is missed, a checkpoint is damaged).
Words such as *snapshot* and *owner* are in the [glossary](glossary.md).
"""
HEADING = re.compile(r"^#+ ramledger ([\w -]+)$\n", re.M)
USAGE = re.compile(r"^```console\n(.+)\n```$", re.M)
LINK_TO_VERB = re.compile(r"\(#ramledger-([\w-]+)\)")


def page() -> str:
    """The whole page."""
    app = build_app()
    _, *parts = HEADING.split(app.generate_docs(output_format="markdown"))
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    verbs = sorted(sections, key=_place)
    texts = [INTRODUCTION, *(_section(app, verb, sections[verb]) for verb in verbs)]
    return "\n".join(texts)


def _place(verb: str) -> int:
    first = verb.split()[0]
    return ORDER.index(first) if first in ORDER else len(ORDER)


def _section(app: App, verb: str, text: str) -> str:
    words = verb.split()
    text = LINK_TO_VERB.sub(r"(#\1)", USAGE.sub(r"`\1`", text)).strip()
    parts = [f"{'#' * (len(words) + 1)} {verb}\n\n{text}\n"]
    if examples := _examples(app, words):
        parts.append("**Examples**:\n\n" + "\n".join(examples) + "\n")
    return "\n".join(parts)


def _examples(app: App, words: list[str]) -> list[str]:
    """One list item an example that the help of the verb prints."""
    for word in words:
        app = app[word]
    lines = (line.strip() for line in str(app.help_epilogue or "").splitlines())
    return [f"* `{line}`" for line in lines if line.startswith("ramledger ")]


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        is_true = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print("docs/cli.md is true" if is_true else "docs/cli.md is behind: run `make docs`")
        return 0 if is_true else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
