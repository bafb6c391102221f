"""Lines pinned to the bottom of a terminal that another program writes to at the same time.

The terminal's scrolling region ends above them, so the program's output scrolls there untouched:
it keeps the terminal itself, with partial lines, progress bars and keys. A frame is one write,
which the kernel does not mix with others, and puts the cursor back where it was.
"""

import os
import select
import termios
from collections.abc import Sequence
from contextlib import suppress

LEAST_ROWS, LEAST_COLUMNS = 12, 40

# DEC VT510: DECSC, DECRC, DECSTBM, IND, CUU; ECMA-48: CUP, EL
_SAVE, _RESTORE, _DOWN = "\x1b7", "\x1b8", "\x1bD"
_WHOLE_SCREEN = "\x1b[r"


def can_pin(fd: int) -> bool:
    """Whether a descriptor is a terminal that knows scrolling regions and is large enough."""
    term = os.environ.get("TERM", "")
    if not os.isatty(fd) or term in ("", "dumb", "unknown"):
        return False
    size = _size(fd)
    return size is not None and size[0] >= LEAST_ROWS and size[1] >= LEAST_COLUMNS


class PinnedLines:
    """The bottom lines of the terminal behind a descriptor. `close` gives them back."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rows = 0  # of the terminal when the lines were claimed
        self._height = 0  # lines claimed; 0: none

    def room(self) -> tuple[int, int]:
        """(lines, columns) that a frame may have: half of the screen, and no last column.

        A character in the last column would leave some terminals in the middle of a line break.
        """
        size = _size(self._fd)
        if size is None or size[0] < LEAST_ROWS or size[1] < LEAST_COLUMNS:
            return 0, 0
        return size[0] // 2, size[1] - 1

    def draw(self, lines: Sequence[str]) -> bool:
        """Show `lines` (escape codes for colors allowed). False when the terminal is not ours now.

        Another job in front takes the whole screen back. A program that reads keys itself (a
        debugger's prompt, a full-screen program) is left alone until it is done.
        """
        size = _size(self._fd)
        if size is None or not lines:
            return False
        if not _is_foreground(self._fd):
            self.close()
            return False
        if not _reads_lines(self._fd) or not _is_writable(self._fd):
            return False
        rows = size[0]
        lines = lines[: rows // 2]
        frame = self._claim(rows, len(lines)) + _SAVE + f"\x1b[1;{rows - self._height}r"
        padded = [*[""] * (self._height - len(lines)), *lines]
        for row, line in enumerate(padded, rows - self._height + 1):
            frame += f"\x1b[{row};1H\x1b[m\x1b[2K{line}"
        return self._write(frame + _RESTORE)

    def close(self) -> None:
        """Erase the lines and let the whole screen scroll again; may be called twice."""
        if not self._height:
            return
        frame = _SAVE
        for row in range(self._rows - self._height + 1, self._rows + 1):
            frame += f"\x1b[{row};1H\x1b[m\x1b[2K"
        self._height = 0
        self._write(frame + _WHOLE_SCREEN + _RESTORE)

    def _claim(self, rows: int, height: int) -> str:
        """Make room below the cursor without losing its column or what is above it."""
        frame = ""
        if self._height and rows != self._rows:
            # resized: what was pinned moved, but it still lies below the program's cursor
            frame = f"{_SAVE}{_WHOLE_SCREEN}{_RESTORE}\x1b[J"
            self._height = 0
        more = height - self._height
        if more > 0:
            frame += _DOWN * more + f"\x1b[{more}A"
            self._height = height
        self._rows = rows
        return frame

    def _write(self, frame: str) -> bool:
        if _would_be_stopped(self._fd):
            return False
        data = frame.encode("utf-8", "replace")
        with suppress(OSError):
            while data:
                try:
                    data = data[os.write(self._fd, data) :]
                except BlockingIOError:  # the program made the terminal non-blocking
                    if not select.select([], [self._fd], [], 1.0)[1]:
                        break
        return not data


def _size(fd: int) -> tuple[int, int] | None:
    try:
        size = os.get_terminal_size(fd)
    except OSError:
        return None
    return size.lines, size.columns


def _is_foreground(fd: int) -> bool:
    """Whether no other job is in front; a terminal that is not our controlling one has none."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return True


def _would_be_stopped(fd: int) -> bool:
    """`stty tostop`: the kernel stops jobs in the background that write."""
    try:
        is_strict = bool(termios.tcgetattr(fd)[3] & termios.TOSTOP)
    except termios.error:
        return True
    return is_strict and not _is_foreground(fd)


def _reads_lines(fd: int) -> bool:
    """Whether the terminal hands out whole lines: programs that take over the screen switch it."""
    try:
        return bool(termios.tcgetattr(fd)[3] & termios.ICANON)
    except termios.error:
        return False


def _is_writable(fd: int) -> bool:
    """A terminal stopped by Ctrl-S would block us, and we are needed for signals."""
    return bool(select.select([], [fd], [], 0)[1])
