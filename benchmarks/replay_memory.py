"""Resident bytes a transition: RSS measured in a fresh process each, beside other layouts.

Bars: W1 ≤ 330, W2 ≤ 7,150 raw and ≤ 1,200 compressed, W3 ≤ 3,700 by overlap and ≤ 64 by table.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.replay_workloads import EPISODE, atari
from rich import box
from rich.console import Console
from rich.table import Table

from ramledger.replay import Field, Frames, ReplayBuffer, Schema, TableWindow

BARS = {
    "W1 ramledger": 330,
    "W2 ramledger": 7150,
    "W2 ramledger, lz4": 1200,
    "W2 ramledger, zstd": 1200,
    "W3 ramledger, overlap found": 3700,
    "W3 ramledger, table": 64,
}
CASES = (*BARS, "W1 stable-baselines3", "W2 stable-baselines3", "W3 stable-baselines3")


def rss() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) << 10


def vector_rows(buffer: ReplayBuffer, count: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(count // EPISODE):
        rows = rng.normal(size=(EPISODE + 1, 71)).astype(np.float32)
        extend(buffer, rows[:-1], rows[1:], (7,))


def extend(buffer: ReplayBuffer, here: Any, later: Any, action: tuple[int, ...]) -> None:
    steps = len(here)
    ends = np.arange(steps) % EPISODE == EPISODE - 1
    actions, rewards = np.ones((steps, *action), np.float32), np.ones(steps, np.float32)
    buffer.extend(here, actions, rewards, later, np.zeros(steps, bool), ends)


def measured_here(case: str) -> float:
    """Fill a buffer of one kind; the RSS it added, by transition."""
    if case.startswith("W1"):
        count, schema = 200_000, Schema(Field((71,)), action=Field((7,)))
        if "stable" in case:
            return theirs((71,), np.float32, 100_000)
        before = rss()
        buffer = ReplayBuffer(schema, count)
        vector_rows(buffer, int(1.3 * count))
        return (rss() - before) / len(buffer)
    return atari_case(case) if case.startswith("W2") else window_case(case)


def atari_case(case: str) -> float:
    if "stable" in case:
        return theirs((4, 84, 84), np.uint8, 5000)
    load = atari(9000)
    codec = case.partition(", ")[2]
    schema = Schema(Frames((84, 84), "uint8", 4), action=Field((1,), "int64"))
    # the codec's own library is there before, the buffer is not
    ReplayBuffer(schema, 10, compress=codec)
    before = rss()
    buffer = ReplayBuffer(schema, 50_000, compress=codec)
    no = np.zeros(EPISODE, bool)
    for begin in range(0, 63_000, EPISODE):
        at = slice(begin % 9000, begin % 9000 + EPISODE)
        later = slice(at.start + 1, at.stop + 1)
        buffer.extend(load.windows[at], load.action[at], load.reward[at], load.windows[later], no,
                      load.ends[at])  # fmt: skip
    return (rss() - before) / len(buffer)


def window_case(case: str) -> float:
    rng = np.random.default_rng(0)
    if "stable" in case:
        return theirs((504, 117, 5), np.float32, 300)
    market = rng.normal(size=(12_000, 117, 5)).astype(np.float32)
    count = 50_000
    views = np.moveaxis(np.lib.stride_tricks.sliding_window_view(market, 504, axis=0), -1, 1)
    if "table" in case:
        schema = Schema(TableWindow("market", 504), action=Field((7,)))
        before = rss()
        buffer = ReplayBuffer(schema, count, tables={"market": market})
        for _ in range(int(1.3 * count) // EPISODE):
            at = np.arange(EPISODE) + int(rng.integers(503, 10_000))
            extend(buffer, at, at + 1, (7,))
        return (rss() - before) / len(buffer)
    schema = Schema(Frames((117, 5), "float32", 504), action=Field((7,)))
    before = rss()
    buffer = ReplayBuffer(schema, count)
    for _ in range(int(1.3 * count) // EPISODE):
        first = int(rng.integers(0, 10_000))
        here, later = (views[first + ahead : first + ahead + EPISODE] for ahead in (0, 1))
        extend(buffer, here, later, (7,))
    return (rss() - before) / len(buffer)


def theirs(shape: tuple[int, ...], dtype: Any, count: int) -> float:
    from gymnasium import spaces
    from stable_baselines3.common.buffers import ReplayBuffer as Theirs

    high = 255 if dtype is np.uint8 else 9.0
    before = rss()
    buffer = Theirs(count, spaces.Box(0, high, shape, dtype), spaces.Box(-1, 1, (7,)), "cpu")
    obs, action = np.ones((1, *shape), dtype), np.ones((1, 7), np.float32)
    for _ in range(count):
        buffer.add(obs, obs, action, np.ones(1), np.ones(1), [{}])
    return (rss() - before) / count


def main() -> int:
    table = Table(title="Resident bytes a transition", title_justify="left", box=box.MARKDOWN)
    for column in ("", "bytes", "bar"):
        table.add_column(column, justify="left" if not column else "right")
    missed = []
    for case in CASES:
        command = [sys.executable, "-m", "benchmarks.replay_memory", case]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = float(json.loads(done.stdout.splitlines()[-1]))
        bar = BARS.get(case)
        table.add_row(case, f"{found:,.0f}", f"{bar:,}" if bar else "")
        if bar is not None and found > bar:
            missed.append(f"{case}: {found:,.0f}")
    console = Console(width=140)
    console.print(table)
    for bar_missed in missed:
        console.print(f"missed: {bar_missed}", style="bold red")
    return 1 if missed else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measured_here(sys.argv[1])))
    else:
        sys.exit(main())
