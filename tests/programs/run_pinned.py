"""Pins three lines while it prints: full lines, a line in parts, and what the test asks for."""

import sys
import termios
import time

from ramledger.report.terminal.pinned_lines import PinnedLines, can_pin

pinned = PinnedLines(2)
mode = sys.argv[1]
if not can_pin(2):
    sys.exit("this terminal cannot be pinned to")


def draw(number: int, height: int = 3) -> bool:
    return pinned.draw([f"\x1b[32mpinned {number}.{line}\x1b[0m" for line in range(height)])


for number in range(60):
    print(f"line {number}", end="", flush=True)
    draw(number)
    print(f" goes on {number}", flush=True)
if mode == "grow":
    draw(61, 6)
    print("after growth", flush=True)
if mode == "partial":
    print("progress 10%", end="", flush=True)
    draw(62)
    print("\rprogress 99%", end="", flush=True)
    draw(63)
if mode == "keys":
    attributes = termios.tcgetattr(0)
    changed = termios.tcgetattr(0)
    changed[3] &= ~termios.ICANON
    termios.tcsetattr(0, termios.TCSADRAIN, changed)
    print("drawn while keys are read:", draw(64), flush=True)
    termios.tcsetattr(0, termios.TCSADRAIN, attributes)
if mode == "wait":
    print("waiting", flush=True)
    for number in range(200):
        draw(100 + number)
        time.sleep(0.05)
if mode != "leave":
    time.sleep(0.5)
    pinned.close()
    print("closed", flush=True)
time.sleep(1.5)
