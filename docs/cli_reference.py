"""Writes docs/cli.md: what `--help` says, verb by verb; `--check` tells if the page is behind."""

import os
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("cli.md")
COMMAND = Path(sys.executable).with_name("ramledger")
VERBS = (
    ("plan",), ("run",), ("explain",), ("watch",), ("diagnose",), ("report",), ("serve",),
    ("check-env",), ("train",), ("train", "evaluate"), ("replay",), ("replay", "inspect"),
    ("replay", "verify"), ("replay", "export"),
)  # fmt: skip
INTRODUCTION = """\
# Command line

Made from `--help` by `make docs`: every verb, in the order of a run.
Exit codes: 0 fine, 1 error, 2 usage, 3 it worked and the answer is bad
(a plan that does not fit, a leak, a target that is missed).
"""


def help_of(*verb: str) -> str:
    """What `ramledger VERB --help` prints, 100 columns wide and without colors."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        [COMMAND, *verb, "--help"], capture_output=True, text=True, check=True, env=environment
    )
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION, f"```text\n{help_of()}\n```\n"]
    for verb in VERBS:
        parts.append(f"## {' '.join(verb)}\n\n```text\n{help_of(*verb)}\n```\n")
    return "\n".join(parts)


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
