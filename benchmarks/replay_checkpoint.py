"""Saving and loading beside pickle, torch.save, TorchRL and `dd`; report 004 replayed.

`python -m benchmarks.replay_checkpoint [GiB] [FOLDER]`, 1 GiB in a temporary folder unless told.
Bars: save ≤ 64 MiB extra and ≥ 85 % of dd, load ≤ 1.05×, 4 % new ≤ 6 %, first batch < 1 s.
"""

import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from ramledger.replay import Field, Frames, ReplayBuffer, Schema, TableWindow

GIB, MIB = 1 << 30, 1 << 20
WIDTH = 84 * 84
console = Console(width=140)


def status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10


def with_peak(action: Callable[[], Any]) -> tuple[Any, float, int]:
    """Result, seconds and how far RSS rose above its value before."""
    Path("/proc/self/clear_refs").write_text("5")
    before = status_bytes("VmRSS:")
    started = time.perf_counter()
    result = action()
    seconds = time.perf_counter() - started
    return result, seconds, status_bytes("VmHWM:") - before


def filled(size_bytes: int) -> ReplayBuffer:
    """Frames of noise, which no compression and no comparison makes smaller."""
    schema = Schema(Frames((84, 84), "uint8", 4), action=Field((), "int64"))
    capacity = size_bytes // (schema.row_bytes + schema.step_bytes)
    buffer = ReplayBuffer(schema, capacity, seed=0)
    grow(buffer, capacity)
    return buffer


def grow(buffer: ReplayBuffer, count: int) -> None:
    rng = np.random.default_rng(buffer.total_added)
    for begin in range(0, count, 1000):
        steps = min(1000, count - begin)
        frames = rng.integers(0, 256, (steps + 4, 84, 84), dtype=np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0)
        views = np.moveaxis(windows, -1, 1)
        ends = np.arange(steps) == steps - 1
        actions, rewards = np.zeros(steps, np.int64), np.zeros(steps, np.float32)
        buffer.extend(views[:-1], actions, rewards, views[1:], np.zeros(steps, bool), ends)


def dd_seconds(folder: Path, size_bytes: int) -> float:
    target = folder / "dd"
    command = ["dd", "if=/dev/zero", f"of={target}", "bs=1M", f"count={size_bytes // MIB}"]
    started = time.perf_counter()
    subprocess.run([*command, "conv=fsync"], check=True, capture_output=True)
    seconds = time.perf_counter() - started
    target.unlink()
    return seconds


def own_rows(folder: Path, size_bytes: int, table: Table) -> list[str]:
    buffer = filled(size_bytes)
    size = buffer.used_bytes
    tries, others = [], []
    for number in range(3):  # in turns: a shared disk is not the same a minute later
        if number:
            shutil.rmtree(folder / f"ours{number - 1}")
        others.append(dd_seconds(folder, size))
        tries.append(with_peak(partial(buffer.save, folder / f"ours{number}")))
    dd = min(others)
    table.add_row("dd conv=fsync", "", f"{dd:.2f}", f"{size / dd / 1e9:.2f}", f"{size / MIB:,.0f}")
    saved, seconds, peak = min(tries, key=lambda found: found[1])
    row(table, "ramledger save", peak, seconds, saved.written_bytes)
    missed = [f"save took {peak / MIB:.0f} MiB"] if peak > 64 * MIB else []
    rate = (saved.written_bytes / seconds) / (size / dd)
    if rate < 0.85:
        missed.append(f"save at {rate:.0%} of dd")
    tries = []
    for _ in range(3):
        grow(buffer, buffer.capacity // 25)
        tries.append(with_peak(partial(buffer.save, folder / "ours2")))
    again, again_seconds, peak = min(tries, key=lambda found: found[1])
    row(table, "ramledger save, 4 % new", peak, again_seconds, again.written_bytes)
    if again.written_bytes > 0.06 * saved.written_bytes or again_seconds > 0.06 * seconds:
        missed.append(f"4 % new: {again.written_bytes / saved.written_bytes:.1%} of the bytes, "
                      f"{again_seconds / seconds:.1%} of the time")  # fmt: skip
    wanted = buffer.sample(256)
    del buffer
    loaded, seconds, peak = with_peak(lambda: ReplayBuffer.load(folder / "ours2"))
    row(table, "ramledger load", peak, seconds, size)
    if peak > 1.05 * size:
        missed.append(f"load peaked at {peak / size:.2f} of the buffer")
    del loaded

    def first_batch() -> Any:
        return ReplayBuffer.load(folder / "ours2", lazy=True).sample(256)

    batch, seconds, peak = with_peak(first_batch)
    row(table, "ramledger, first batch, lazy", peak, seconds, 0)
    if seconds > 1 or not np.array_equal(batch.obs, np.asarray(wanted.obs)):
        missed.append(f"first batch after {seconds:.2f} s")
    return missed


def row(table: Table, name: str, peak: int, seconds: float, size_bytes: int) -> None:
    rate = f"{size_bytes / seconds / 1e9:.2f}" if size_bytes else ""
    size = f"{size_bytes / MIB:,.0f}" if size_bytes else ""
    table.add_row(name, f"{peak / MIB:,.0f}", f"{seconds:.2f}", rate, size)


def peer_rows(folder: Path, size_bytes: int, table: Table) -> None:
    """The same bytes as others save them: a list of arrays, one array."""
    count = size_bytes // WIDTH
    whole = np.random.default_rng(0).integers(0, 256, (count, WIDTH), dtype=np.uint8)

    def pickled(protocol: int, value: Any) -> Callable[[], None]:
        def save() -> None:
            with (folder / "peer").open("wb") as file:
                pickle.dump(value, file, protocol)

        return save

    pieces = [part.copy() for part in whole]
    _, seconds, peak = with_peak(pickled(4, pieces))
    row(table, "pickle 4 of a list of arrays", peak, seconds, size_bytes)
    del pieces
    _, seconds, peak = with_peak(pickled(5, whole))
    row(table, "pickle 5 of one array (stable-baselines3)", peak, seconds, size_bytes)
    try:
        import torch
    except ImportError as error:
        console.print(f"left out: {error}")
        return
    _, seconds, peak = with_peak(lambda: torch.save(torch.from_numpy(whole), folder / "peer"))
    row(table, "torch.save of one tensor", peak, seconds, size_bytes)
    try:
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    except ImportError as error:
        console.print(f"left out: {error}")
        return
    theirs = TensorDictReplayBuffer(storage=LazyTensorStorage(count))
    theirs.extend(TensorDict({"obs": torch.from_numpy(whole)}, batch_size=[count]))
    _, seconds, peak = with_peak(lambda: theirs.dumps(folder / "torchrl"))
    row(table, "TorchRL dumps", peak, seconds, size_bytes)


def report_004(folder: Path) -> list[str]:
    """50,000 transitions of (504, 108, 9) windows by 16 agents, which took 187 GB."""
    market = np.random.default_rng(0).normal(size=(2500, 108, 9)).astype(np.float32)
    schema = Schema(TableWindow("market", 504), action=Field((108, 2)))

    def run() -> ReplayBuffer:
        buffer = ReplayBuffer(schema, 50_000, n_envs=16, seed=0, tables={"market": market})
        rng = np.random.default_rng(1)
        for _ in range(25):  # generations of 125 steps
            at = rng.integers(503, 2370, 16)
            for step in range(125):
                action = rng.normal(size=(16, 108, 2)).astype(np.float32)
                reward = rng.normal(size=16).astype(np.float32)
                ends = np.full(16, step == 124)
                buffer.add_step(at, action, reward, at + 1, ends, np.zeros(16, bool))
                at = at + 1
        return buffer

    buffer, _, resident = with_peak(run)
    saved, seconds, peak = with_peak(lambda: buffer.save(folder / "004"))
    loaded = ReplayBuffer.load(folder / "004", tables={"market": market})
    mine, theirs = (np.asarray(found.sample(32).obs) for found in (buffer, loaded))
    same = np.array_equal(mine, theirs)
    naive = len(buffer) * 2 * 504 * 108 * 9 * 4
    table = Table(title="Report 004 replayed", title_justify="left", box=box.MARKDOWN)
    for column in ("", "reported", "here"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row("transitions", "50,000", f"{len(buffer):,}")
    table.add_row("resident", "187 GB", f"{resident / 1e6:.1f} MB of {naive / 1e9:.0f} GB")
    table.add_row("RAM to save", "175+ GB, killed", f"{peak / 1e6:.1f} MB")
    table.add_row("save", "never", f"{seconds:.2f} s, {saved.written_bytes / 1e6:.1f} MB")
    table.add_row("next batch after resume", "no buffer", "bit-identical" if same else "OTHER")
    console.print(table)
    good = len(buffer) == 50_000 and resident < 100e6 and seconds < 2 and same
    return [] if good else ["report 004"]


def main(arguments: list[str]) -> int:
    size_bytes = int(float(arguments[0]) * GIB) if arguments else GIB
    place = arguments[1] if len(arguments) > 1 else None
    with tempfile.TemporaryDirectory(dir=place) as name:
        folder = Path(name)
        missed = report_004(folder)
        title = f"A buffer of {size_bytes / GIB:.1f} GiB"
        table = Table(title=title, title_justify="left", box=box.MARKDOWN)
        for column in ("", "extra peak MiB", "s", "GB/s", "MiB"):
            table.add_column(column, justify="left" if not column else "right")
        missed += own_rows(folder, size_bytes, table)
        peer_rows(folder, min(size_bytes, GIB), table)
        console.print(table)
    for bar in missed:
        console.print(f"missed: {bar}", style="bold red")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
