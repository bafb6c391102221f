"""Writes docs/known-leaks.md from the table that ships; `--check` tells if the page is behind."""

import sys
from pathlib import Path

from ramledger.diagnose.known_versions import LeakyRelease, leaky_releases

PAGE = Path(__file__).with_name("known-leaks.md")
INTRODUCTION = """\
# Known leaks

Releases of libraries that leak, as somebody reported and we checked. Made from
`src/ramledger/diagnose/known_versions.json` by `make docs`.

A release alone names nothing. [`diagnose`](diagnose.md) adds the sentence *known: … fixed in …*
to a leak it has found if the run has loaded such a release, the cause fits, and the evidence shows
one thing more: the class that piles up, the name that holds it, or a line of the program that ran
while memory grew. Nothing else of the finding changes, and a run that does not leak stays healthy.
`cv2` is the module of opencv-python, `python` the interpreter.
"""
HEAD = """\
| library | releases | leaks | fixed in | known by | checked |
|---|---|---|---|---|---|
"""


def row(leaky: LeakyRelease) -> str:
    """One line of the table."""
    same = leaky.first == leaky.last
    releases = leaky.first if same else f"{leaky.first} to {leaky.last}"
    signature = leaky.signature
    clues = (*signature.classes, *signature.owners, *signature.calls)
    known_by = ", ".join(f"`{clue}`".replace("|", "\\|") for clue in clues)
    number = leaky.link.rpartition("/")[2]
    fixed = leaky.fixed or f"no release: {leaky.instead}"
    cells = (
        leaky.package, releases, f"{leaky.leaks}: [#{number}]({leaky.link})", fixed,
        f"{known_by}; {', '.join(signature.causes)}", leaky.checked,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def page() -> str:
    """The whole page."""
    rows = sorted(leaky_releases(), key=lambda leaky: (leaky.package, leaky.first))
    return f"{INTRODUCTION}\n{HEAD}{''.join(map(row, rows))}"


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        is_true = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print(f"docs/{PAGE.name} is {'true' if is_true else 'behind: run `make docs`'}")
        return 0 if is_true else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
