"""Adding and sampling: ramledger beside a plain numpy ring and other libraries, in one run.

Rates are transitions per CPU second, best of many short interleaved slices; the ring is 1.
Libraries that are not installed are left out and named. `W1`, `W2` or `W3` runs one alone. Bars:
sample ≥ 1.2 / 1.8 / 2.0 of the ring and ≥ 3 of SB3, add one ≥ 1.5 of SB3, many ≥ 1 / 3 / 10.
"""

import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from benchmarks.replay_workloads import Workload, atari, vectors, windows
from rich import box
from rich.console import Console
from rich.table import Table

from ramledger.replay import Field, Frames, ReplayBuffer, Schema

SLICES = 25
console = Console(width=140)


def steps_of(load: Workload, given: Any) -> list[tuple[Any, ...]]:
    """What an environment would hand over, step by step: taking arrays apart is not timed."""
    return list(zip(given[:-1], load.action, load.reward, given[1:], load.ends, strict=True))


class Ours:
    name = "ramledger"

    def __init__(self, load: Workload, capacity: int, *, copied: bool) -> None:
        dtype = load.windows.dtype.name
        row: Any = Field(load.shape, dtype)
        if load.stack > 1:
            row = Frames(load.shape[1:], dtype, load.stack)
        action = Field(load.action.shape[1:], load.action.dtype.name)
        self.buffer = ReplayBuffer(Schema(row, action=action), capacity, seed=0)
        self.load, self.no = load, np.zeros(load.steps, bool)
        self.given = load.windows.copy() if copied else load.windows
        self.name = "ramledger" if copied else "ramledger, views"
        self.batch: Any = None
        self.calls = [
            (given, action, reward, following, False, bool(ends))
            for given, action, reward, following, ends in steps_of(load, self.given)
        ]

    def add(self, at: int) -> None:
        self.buffer.add(*self.calls[at])

    def extend(self, begin: int, end: int) -> None:
        load, given = self.load, self.given
        self.buffer.extend(
            given[begin:end], load.action[begin:end], load.reward[begin:end],
            given[begin + 1 : end + 1], self.no[begin:end], load.ends[begin:end],
        )  # fmt: skip

    def sample(self, count: int) -> Any:
        return self.buffer.sample(count)


class OursReused(Ours):
    def __init__(self, load: Workload, capacity: int) -> None:
        super().__init__(load, capacity, copied=False)
        self.name = "ramledger, out="

    def sample(self, count: int) -> Any:
        self.batch = self.buffer.sample(count, out=self.batch)
        return self.batch


class Ring:
    name = "numpy ring"

    def __init__(self, load: Workload, capacity: int) -> None:
        self.load, self.capacity, self.at, self.size = load, capacity, 0, 0
        self.given = load.windows.copy()
        kind = load.windows.dtype
        self.obs, self.following = (np.zeros((capacity, *load.shape), kind) for _ in range(2))
        self.action = np.zeros((capacity, *load.action.shape[1:]), load.action.dtype)
        self.reward, self.ends = np.zeros(capacity, np.float32), np.zeros(capacity, bool)
        self.rng = np.random.default_rng(0)
        self.calls = steps_of(load, self.given)

    def add(self, at: int) -> None:
        obs, action, reward, following, ends = self.calls[at]
        here = self.at
        self.obs[here] = obs
        self.following[here] = following
        self.action[here] = action
        self.reward[here] = reward
        self.ends[here] = ends
        self.at = (here + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def extend(self, begin: int, end: int) -> None:
        load, count = self.load, end - begin
        if self.at + count > self.capacity:
            self.at = 0
        here = slice(self.at, self.at + count)
        self.obs[here] = self.given[begin:end]
        self.following[here] = self.given[begin + 1 : end + 1]
        self.action[here] = load.action[begin:end]
        self.reward[here] = load.reward[begin:end]
        self.ends[here] = load.ends[begin:end]
        self.at = (self.at + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def sample(self, count: int) -> Any:
        at = self.rng.integers(0, self.size, count)
        return self.obs[at], self.action[at], self.reward[at], self.following[at], self.ends[at]


class Baselines:
    name = "stable-baselines3"

    def __init__(self, load: Workload, capacity: int) -> None:
        from gymnasium import spaces
        from stable_baselines3.common.buffers import ReplayBuffer as Theirs

        kind: Any = load.windows.dtype.type
        low, high = (0, 255) if kind is np.uint8 else (-9, 9)
        space = spaces.Box(low, high, load.shape, kind)
        action: Any = spaces.Discrete(6) if load.action.dtype.kind == "i" else spaces.Box(
            -9, 9, load.action.shape[1:])  # fmt: skip
        self.buffer = Theirs(capacity, space, action, "cpu")
        infos: list[dict[str, Any]] = [{}]
        self.calls = [
            (obs[None], following[None], action[None], reward[None], ends[None], infos)
            for obs, action, reward, following, ends in steps_of(load, load.windows.copy())
        ]

    def add(self, at: int) -> None:
        self.buffer.add(*self.calls[at])

    def extend(self, begin: int, end: int) -> None:
        for at in range(begin, end):
            self.add(at)

    def sample(self, count: int) -> Any:
        return self.buffer.sample(count)


class Cpprb:
    name = "cpprb, next_of"

    def __init__(self, load: Workload, capacity: int) -> None:
        from cpprb import ReplayBuffer as Theirs

        fields = {
            "obs": {"shape": load.shape, "dtype": load.windows.dtype},
            "act": {"shape": load.action.shape[1:], "dtype": load.action.dtype},
            "rew": {}, "done": {},
        }  # fmt: skip
        self.buffer = Theirs(capacity, fields, next_of="obs")
        self.load, self.given = load, load.windows.copy()
        names = ("obs", "act", "rew", "next_obs", "done")
        self.calls = [dict(zip(names, s, strict=True)) for s in steps_of(load, self.given)]

    def add(self, at: int) -> None:
        self.buffer.add(**self.calls[at])
        if self.load.ends[at]:
            self.buffer.on_episode_end()

    def extend(self, begin: int, end: int) -> None:
        load = self.load
        self.buffer.add(
            obs=self.given[begin:end], act=load.action[begin:end], rew=load.reward[begin:end],
            next_obs=self.given[begin + 1 : end + 1], done=load.ends[begin:end],
        )  # fmt: skip

    def sample(self, count: int) -> Any:
        return self.buffer.sample(count)


class TorchRL:
    name = "TorchRL LazyMemmapStorage"

    def __init__(self, load: Workload, capacity: int) -> None:
        import torch
        from tensordict import TensorDict
        from torchrl.data import LazyMemmapStorage, TensorDictReplayBuffer

        self.buffer = TensorDictReplayBuffer(storage=LazyMemmapStorage(capacity))
        self.load, self.given = load, load.windows.copy()
        self._dict, self._torch = TensorDict, torch

    def _data(self, begin: int, end: int) -> Any:
        load, tensor = self.load, self._torch.as_tensor
        return self._dict(
            {
                "obs": tensor(self.given[begin:end]),
                "act": tensor(load.action[begin:end]),
                "rew": tensor(load.reward[begin:end]),
                "next": tensor(self.given[begin + 1 : end + 1]),
                "done": tensor(load.ends[begin:end]),
            },
            batch_size=[end - begin],
        )

    def add(self, at: int) -> None:
        self.buffer.add(self._data(at, at + 1)[0])

    def extend(self, begin: int, end: int) -> None:
        self.buffer.extend(self._data(begin, end))

    def sample(self, count: int) -> Any:
        return self.buffer.sample(count)


class Tianshou:
    name = "Tianshou"

    def __init__(self, load: Workload, capacity: int) -> None:
        from tianshou.data import Batch
        from tianshou.data import ReplayBuffer as Theirs

        self.buffer, self._batch = Theirs(capacity), Batch
        self.load, self.given = load, load.windows.copy()

    def add(self, at: int) -> None:
        load = self.load
        self.buffer.add(self._batch(
            obs=self.given[at], act=load.action[at], rew=load.reward[at], terminated=False,
            truncated=load.ends[at], obs_next=self.given[at + 1], info={}))  # fmt: skip

    def extend(self, begin: int, end: int) -> None:
        for at in range(begin, end):
            self.add(at)

    def sample(self, count: int) -> Any:
        return self.buffer.sample(count)


class Memcpy:
    """What no sampling can beat: the bytes of a batch, each once, from one place to another."""

    name = "memcpy, the limit"

    def __init__(self, load: Workload, capacity: int) -> None:
        rows = load.stack + 1
        item = load.windows[0].nbytes // load.stack * rows
        self.source = np.ones((load.batch, item), np.uint8)
        self.target = np.ones_like(self.source)

    def sample(self, count: int) -> Any:
        np.copyto(self.target, self.source)


def contenders(load: Workload, capacity: int) -> list[Any]:
    made: list[Callable[[], Any]] = [
        lambda: Ring(load, capacity),
        lambda: Ours(load, capacity, copied=True),
        lambda: Ours(load, capacity, copied=False),
        lambda: OursReused(load, capacity),
        lambda: Baselines(load, capacity),
        lambda: Cpprb(load, capacity),
        lambda: TorchRL(load, capacity),
        lambda: Tianshou(load, capacity),
        lambda: Memcpy(load, capacity),
    ]
    found = []
    for make in made:
        try:
            found.append(make())
        except ImportError as error:
            console.print(f"left out: {error}")
    return found


def measured(load: Workload, capacity: int) -> dict[str, dict[str, float]]:
    """CPU seconds a transition for adding one, adding many, and sampling: the best slices."""
    buffers = contenders(load, capacity)
    best: dict[str, dict[str, float]] = {b.name: {} for b in buffers}
    piece = min(1000, load.steps, capacity)
    # full, so that rings wrap and nothing is touched for the first time below
    for buffer in buffers[:-1]:
        laps = 1 if isinstance(buffer, Baselines | Tianshou) else 2
        for _ in range(-(-laps * capacity // load.steps)):
            extend_all(buffer, load.steps, piece)
    gc.collect()
    gc.freeze()  # a collection in a slice would look through everything that was imported
    for number in range(SLICES):
        for buffer in buffers:
            # what takes milliseconds each is asked for less
            if number % 5 == 0 or not isinstance(buffer, TorchRL | Tianshou):
                note_slice(best[buffer.name], buffer, load, piece)
    return best


def note_slice(best: dict[str, float], buffer: Any, load: Workload, piece: int) -> None:
    rounds = 20 if load.batch == 256 else 2
    batches = partial(sample_all, buffer, rounds, load.batch)
    note(best, "sample", rounds * load.batch, batches)
    if isinstance(buffer, Memcpy):
        return
    few = piece * min(load.steps // piece, 20)
    if not isinstance(buffer, Baselines | Tianshou):  # which have no such call
        note(best, "extend", few, partial(extend_all, buffer, few, piece))
    count = min(100 if isinstance(buffer, TorchRL | Tianshou) else 500, load.steps)
    note(best, "add", count, partial(add_all, buffer, count))


def note(best: dict[str, float], what: str, count: int, action: Callable[[], None]) -> None:
    started = time.process_time()
    action()
    seconds = (time.process_time() - started) / count
    best[what] = min(best.get(what, float("inf")), seconds)


def extend_all(buffer: Any, steps: int, piece: int) -> None:
    for begin in range(0, steps - piece + 1, piece):
        buffer.extend(begin, begin + piece)


def add_all(buffer: Any, count: int) -> None:
    for at in range(count):
        buffer.add(at)


def sample_all(buffer: Any, rounds: int, count: int) -> None:
    for _ in range(rounds):
        buffer.sample(count)


BARS = {"W1": (1.2, 1.0), "W2": (1.8, 3.0), "W3": (2.0, 10.0)}  # sample, extend against the ring


def missed_bars(name: str, rates: dict[str, dict[str, float]]) -> list[str]:
    ring, theirs = rates["numpy ring"], rates["stable-baselines3"]
    ours = rates["ramledger"]
    sample, extend = BARS[name[:2]]
    checks = [
        ("sample", ours["sample"], ring, sample),
        ("sample", ours["sample"], theirs, 3.0),
        ("add", ours["add"], theirs, 1.5),
        ("extend", rates["ramledger, views"]["extend"], ring, extend),
    ]
    return [
        f"{name[:2]} {what}: {other[what] / seconds:.2f} instead of {bar}"
        for what, seconds, other, bar in checks
        if other[what] / seconds < bar
    ]


def main(arguments: list[str]) -> int:
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: two threads only wait here
    missed: list[str] = []
    makers = {"W1": (vectors, 100_000), "W2": (atari, 8000), "W3": (windows, 250)}
    for make, capacity in (makers[name] for name in arguments or makers):
        load = make()
        rates = measured(load, capacity)
        ring = rates["numpy ring"]
        table = Table(title=f"{load.name} (numpy ring = 1)", title_justify="left", box=box.MARKDOWN)
        for column in ("", "add one", "add many", f"sample {load.batch}", "k samples/CPU s"):
            table.add_column(column, justify="left" if not column else "right")
        for name, found in rates.items():
            ratios = [
                f"{ring[what] / found[what]:.2f}" if what in found else "-"
                for what in ("add", "extend", "sample")
            ]
            table.add_row(name, *ratios, f"{1e-3 / found['sample']:,.0f}")
        console.print(table)
        missed += missed_bars(load.name, rates)
        del rates
        gc.collect()
    for bar in missed:
        console.print(f"missed: {bar}", style="bold red")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
