"""Makes docs/demo.svg: `make demo` in a terminal, as a moving picture that needs no script.

`python -m examples.demo_picture` runs the demo in tmux, takes the screen twice a second, and shows
each screen that differs, as long as its new lines take to read.
"""

import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "demo.svg"
COLUMNS, ROWS = 96, 34
CELL, LINE, MARGIN = 8.4, 17, 14
LOOK_SECONDS = 0.5
SHORTEST_SECONDS, LINE_SECONDS, LAST_SECONDS = 0.2, 0.16, 8.0
CONSOLE = Console(width=4 * COLUMNS, force_terminal=True)
FONTS = "DejaVu Sans Mono, Menlo, Consolas, monospace"


@dataclass(frozen=True, slots=True)
class Screen:
    """What stood there, with its colors as escape sequences."""

    lines: tuple[str, ...]

    def words(self) -> set[str]:
        """Its lines without their numbers: a counter that goes on is nothing new to read."""
        return {re.sub(r"[\d.:▁-█]+", "", Text.from_ansi(line).plain) for line in self.lines}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        screens = recorded([sys.executable, str(ROOT / "examples" / "demo.py")], folder)
    PICTURE.write_text(moving_picture(screens), encoding="utf-8")
    print(f"{PICTURE}: {len(screens)} screens, {PICTURE.stat().st_size / 1024:.0f} KiB")


def recorded(command: Sequence[str], folder: str) -> list[Screen]:
    """Screens of a command in a terminal of its own, until it ends."""
    name = f"ramledger-picture-{time.time_ns()}"
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    tmux("new-session", "-d", *size, "-c", folder, "-s", name, "sh")
    try:
        tmux("send-keys", "-t", name, f"PS1=; clear; {shlex.join(command)}; echo '#' done", "Enter")
        return list(looks(name))
    finally:
        tmux("kill-session", "-t", name)


def looks(session: str) -> list[Screen]:
    screens: list[Screen] = []
    while True:
        text = tmux("capture-pane", "-e", "-p", "-t", session)
        lines = tuple(line.rstrip() for line in text.rstrip("\n").split("\n"))
        is_over = any(line == "# done" for line in lines)
        lines = tuple(line for line in lines if line != "# done")
        is_new = not screens or screens[-1].lines != lines
        if is_new and any(lines) and "examples/demo.py" not in "".join(lines):
            screens.append(Screen(lines))
        if is_over:
            return screens
        time.sleep(LOOK_SECONDS)


def tmux(*arguments: str) -> str:
    return subprocess.run(
        ["tmux", "-L", "ramledger", *arguments], check=True, capture_output=True, text=True
    ).stdout


# ---- the picture ----------------------------------------------------------------------------


def moving_picture(screens: Sequence[Screen]) -> str:
    """Each screen is a group that CSS shows in its turn; a line that comes again is stored once."""
    shown = [*map(reading_seconds, screens[:-1], screens[1:]), LAST_SECONDS]
    total = sum(shown)
    numbers: dict[str, int] = {}
    groups, rules, begin = [], [], 0.0
    for index, (screen, seconds) in enumerate(zip(screens, shown, strict=True)):
        uses = [
            f'<use href="#l{numbers.setdefault(line, len(numbers))}" y="{row * LINE}"/>'
            for row, line in enumerate(screen.lines)
            if line.strip()
        ]
        groups.append(f'<g class="s" id="s{index}">{"".join(uses)}</g>')
        first, last = 100 * begin / total, 100 * (begin + seconds) / total
        begin += seconds
        rules.append(
            f"@keyframes k{index}{{0%,{first:.3f}%{{visibility:hidden}}"
            f"{first + 0.001:.3f}%,{last:.3f}%{{visibility:visible}}"
            f"{min(100, last + 0.001):.3f}%,100%{{visibility:hidden}}}}"
            f"#s{index}{{animation:k{index} {total:.2f}s step-end infinite}}"
        )
    width, height = COLUMNS * CELL + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
    definitions = "".join(f'<g id="l{n}">{line_spans(line)}</g>' for line, n in numbers.items())
    # who asks for no motion sees the last screen, with the saving
    last_one = f"#s{len(screens) - 1}{{visibility:visible}}"
    still = f"@media (prefers-reduced-motion){{.s{{animation:none!important}}{last_one}}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}">'
        "<title>make demo: a plan, a leak with its line, the fix, a saving</title>"
        f"<style>text{{font:14px {FONTS};white-space:pre;fill:#c5c8c6}}.s{{visibility:hidden}}"
        f"{''.join(rules)}{still}</style><defs>{definitions}</defs>"
        f'<rect width="100%" height="100%" rx="8" fill="#1f2123"/>'
        f'<g transform="translate({MARGIN} {MARGIN + LINE - 5})">{"".join(groups)}</g></svg>\n'
    )


def reading_seconds(screen: Screen, following: Screen) -> float:
    """What is gone from the next screen must have been read by then."""
    going = len(screen.words() - following.words())
    return max(SHORTEST_SECONDS, LINE_SECONDS * going)


def line_spans(line: str) -> str:
    """A line with escape sequences as text of SVG, each span at its own column."""
    text = Text.from_ansi(line)
    parts, column = [], 0
    for piece in text.render(CONSOLE):
        length = Text(piece.text).cell_len
        if piece.text.strip():
            where = f'x="{column * CELL:.1f}" textLength="{length * CELL:.1f}"'
            parts.append(f"<text {where}{style_of(piece.style)}>{escape(piece.text)}</text>")
        column += length
    return "".join(parts)


def style_of(style: Style | None) -> str:
    if style is None:
        return ""
    rules = ["font-weight:bold"] if style.bold else []
    if style.dim:
        rules.append("opacity:.6")
    if style.color is not None and not style.color.is_default:
        rules.append(f"fill:{hex_of(style.color)}")
    return f' style="{";".join(rules)}"' if rules else ""


def hex_of(color: Color) -> str:
    return color.get_truecolor(DIMMED_MONOKAI).hex


if __name__ == "__main__":
    main()
