"""What a snapshot costs: CPU, the longest time that no other thread runs, and temporary memory.

Beside it, in the same process: `gc.get_objects()` with a Counter, and guppy3 where it is installed.
Keras and RLlib are measured in the environments of `make test-tensorflow` and `make test-ray`.
`--quick` takes one process, `--json` prints the numbers. Bars: a snapshot 50 ms and one with all
objects 100 ms of CPU for torch with SB3, 10 ms without a rest, 32 MiB of temporary memory.
"""

import gc
import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MIB = 1 << 20
MOST_SECONDS = {"snapshot": 0.050, "snapshot with all objects": 0.100}
BARRED = "torch and SB3"
MOST_STALL_SECONDS = 0.010
MOST_BYTES = 32 * MIB
TIMES = 5
# a thread that waits for the GIL asks for it after this time: not the default of 5 ms, which would
# hide how long the work goes on without a rest
SWITCH_SECONDS = 0.0002


@dataclass(frozen=True)
class Cost:
    """Of one tool in one process; `idle_stall_seconds` is that beside a loop that does nothing."""

    process: str
    tool: str
    tracked_objects: int
    cpu_seconds: float
    stall_seconds: float
    idle_stall_seconds: float
    temporary_bytes: int


class NotInstalledError(Exception):
    """A library of the program is missing."""


# ---- the processes -----------------------------------------------------------------------------


def need(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise NotInstalledError(f"{module} is not installed")


def torch_and_sb3() -> Any:
    """A population of networks, a buffer of windows, and lists: about 400,000 objects."""
    need("torch", "stable_baselines3", "numpy")
    import numpy as np
    import stable_baselines3
    import torch

    assert stable_baselines3.__version__
    layers = [(585, 256), (256, 256), (256, 4)]
    networks = [torch.nn.ModuleList(torch.nn.Linear(*n) for n in layers) for _ in range(32)]
    optimizers = [torch.optim.Adam(network.parameters()) for network in networks]
    window = np.random.default_rng(0).random((60, 117, 5))
    transitions = [{"state": window.copy(), "reward": i, "next": window[:9]} for i in range(600)]
    log = [{"step": number, "values": [number]} for number in range(60_000)]
    return networks, optimizers, deque(transitions, maxlen=1_500), log


def keras_network() -> Any:
    need("keras", "tensorflow")
    import keras

    network = keras.Sequential([keras.layers.Dense(256) for _ in range(4)])
    network.build((None, 585))
    return network, [{"step": number} for number in range(60_000)]


def rllib_worker() -> Any:
    """What a process that samples for RLlib has: its imports, a module and episodes."""
    need("ray", "gymnasium", "torch")
    import numpy as np
    import torch
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    observation = np.zeros(585, np.float32)
    episodes = [
        SingleAgentEpisode(observations=[observation, observation], actions=[0], rewards=[0.0])
        for _ in range(2_000)
    ]
    return torch.nn.Linear(585, 256), episodes


def lists(count: int) -> Callable[[], Any]:
    """As many tracked objects, half of them in the other half."""

    def made() -> Any:
        gc.disable()  # making them would take minutes
        found: list[list[list[Any]]] = [[[]] for _ in range(count // 2)]
        gc.enable()
        return found

    return made


QUICK = "1 million lists"
PROCESSES: dict[str, Callable[[], Any]] = {
    BARRED: torch_and_sb3,
    "Keras": keras_network,
    "an RLlib worker": rllib_worker,
    QUICK: lists(1_000_000),
    "10 million lists": lists(10_000_000),
}
ENVIRONMENTS = {"Keras": "tensorflow", "an RLlib worker": "ray"}


# ---- the tools ---------------------------------------------------------------------------------


def snapshot(*, all_objects: bool) -> Callable[[], Any]:
    from ramledger.agent.snapshot_event import take_snapshot

    return lambda: take_snapshot(generation=1, phase="", count_objects=all_objects)


def count_types() -> Any:
    return Counter(map(type, gc.get_objects()))


def guppy() -> Callable[[], Any] | None:
    if importlib.util.find_spec("guppy") is None:
        return None
    from guppy import hpy

    heap = hpy()
    return lambda: str(heap.heap().bytype)


def tools() -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any] | None] = {
        "snapshot": snapshot(all_objects=False),
        "snapshot with all objects": snapshot(all_objects=True),
        "Counter(map(type, gc.get_objects()))": count_types,
        "guppy3, heap().bytype": guppy(),
    }
    return {name: work for name, work in found.items() if work is not None}


# ---- measuring, in the process itself ----------------------------------------------------------


def cpu_seconds(work: Callable[[], Any], times: int) -> float:
    """The least of several times."""
    found = []
    for _ in range(times):
        started = time.thread_time()
        work()
        found.append(time.thread_time() - started)
    return min(found)


def stall_seconds(work: Callable[[], Any]) -> float:
    """The most CPU time of `work` between two moments in which another thread ran.

    CPU time, so that a busy machine does not count; reading files counts, although it lets others
    run: then both threads run at a time.
    """
    clock: list[int] = []

    def working() -> None:
        clock.append(time.pthread_getcpuclockid(threading.get_ident()))
        work()

    thread = threading.Thread(target=working)
    thread.start()
    longest, last = 0.0, None
    while thread.is_alive():
        try:
            now = time.clock_gettime(clock[0]) if clock else None
        except OSError:  # it has ended
            break
        if now is not None and last is not None:
            longest = max(longest, now - last)
        last = now
    thread.join()
    return longest


def idle() -> None:
    until = time.thread_time() + 0.05
    while time.thread_time() < until:
        pass


def temporary_bytes(work: Callable[[], Any]) -> int:
    """How far the peak of RSS rises above what the process has."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    before = status_bytes("VmRSS:")
    work()
    return max(0, status_bytes("VmHWM:") - before)


def status_bytes(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))


def costs(process: str) -> list[Cost]:
    """Of every tool, in this process."""
    kept = PROCESSES[process]()
    gc.collect()
    tracked = len(gc.get_objects())
    times = TIMES if tracked < 2_000_000 else 2
    sys.setswitchinterval(SWITCH_SECONDS)
    idle_stall = min(stall_seconds(idle) for _ in range(3))
    found = []
    for tool, work in tools().items():
        first_bytes = temporary_bytes(work)  # later calls reuse what the first has freed
        cpu = cpu_seconds(work, times)
        stall = min(stall_seconds(work) for _ in range(min(3, times)))
        found.append(Cost(process, tool, tracked, cpu, stall, idle_stall, first_bytes))
    del kept
    return found


# ---- all processes -----------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--process"]:
        try:
            print(json.dumps([asdict(cost) for cost in costs(arguments[1])]))
        except NotInstalledError as error:
            print(json.dumps(str(error)))
        return 0
    found: list[Cost] = []
    for process in [QUICK] if "--quick" in arguments else PROCESSES:
        command = [python_of(process), "-m", "benchmarks.snapshot_cost", "--process", process]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        if isinstance(answer, str):
            print(f"{process}: skipped, {answer}", file=sys.stderr)
        else:
            found += [Cost(**row) for row in answer]
    if "--json" in arguments:
        print(json.dumps([asdict(cost) for cost in found]))
        return 0
    show(found)
    bars = missed(found)
    for bar in bars:
        print(f"missed: {bar}")
    return 1 if bars else 0


def python_of(process: str) -> str:
    """The interpreter that has the libraries of a process; this one, if it was never set up."""
    name = ENVIRONMENTS.get(process)
    found = Path(sys.prefix).with_name(f"{Path(sys.prefix).name}-{name}") / "bin" / "python"
    return str(found) if name and found.exists() else sys.executable


def show(found: list[Cost]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.MARKDOWN)
    for column in ("process", "objects", "tool", "CPU ms", "no rest, ms", "idle", "MiB"):
        table.add_column(column, justify="left" if column in ("process", "tool") else "right")
    for cost in found:
        table.add_row(
            cost.process, f"{cost.tracked_objects:,}", cost.tool, f"{cost.cpu_seconds * 1e3:.0f}",
            f"{cost.stall_seconds * 1e3:.1f}", f"{cost.idle_stall_seconds * 1e3:.1f}",
            f"{cost.temporary_bytes / MIB:.1f}",
        )  # fmt: skip
    console = Console(width=140)
    console.print(table)
    if importlib.util.find_spec("guppy") is None:
        console.print("guppy3 is not installed: not compared")


def missed(found: list[Cost]) -> list[str]:
    """The bars that were not kept."""
    bars = []
    for cost in found:
        most = MOST_SECONDS.get(cost.tool)
        if most is None:
            continue
        where = f"{cost.tool} of {cost.process}"
        if cost.process == BARRED and cost.cpu_seconds > most:
            bars.append(f"{where}: {cost.cpu_seconds * 1e3:.0f} ms of CPU")
        if cost.stall_seconds > MOST_STALL_SECONDS:
            bars.append(f"{where}: {cost.stall_seconds * 1e3:.1f} ms without a rest")
        if cost.temporary_bytes > MOST_BYTES:
            bars.append(f"{where}: {cost.temporary_bytes / MIB:.1f} MiB of temporary memory")
    return bars


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
