"""What a statement costs: from outside, from inside against other tools, and on entering.

Bars: from outside 0.3 s for 10 GiB; inside 0.5 s of CPU per million objects and 25 MiB of temporary
memory; a process that is entered grows by less than 15 MiB.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ramledger.statement.outside import outside_statement
from tests.support.held_program import HeldProgram
from tests.support.kernel_truth import smaps, total

GIB, MIB = 1 << 30, 1 << 20
CALLS = Path(__file__).parents[1] / "tests" / "peers" / "census_calls.py"
HEAPS = ("lists", "instances", "tuples", "transitions", "nested", "torch")
# (function, name, scale): what takes tens of seconds a million objects gets a tenth of the heap
PEERS = (
    ("counter", "Counter(map(type, gc.get_objects()))", 1.0),
    ("objgraph", "objgraph.most_common_types", 1.0),
    ("guppy", "guppy heap().bytype", 1.0),
    ("asizeof", "pympler asizeof(root)", 0.1),
    ("muppy", "pympler muppy + summary", 0.1),
)

OUTSIDE_SECONDS = 0.3
CENSUS_SECONDS = 0.5
CENSUS_BYTES = 25 * MIB
GROWTH_BYTES = 15 * MIB

console = Console(width=140)


def main() -> int:
    missed = [*outside(), *inside(), *entering()]
    for bar in missed:
        console.print(f"missed: {bar}", style="bold red")
    return 1 if missed else 0


def table(title: str, *columns: str) -> Table:
    found = Table(title=title, title_justify="left", box=box.MARKDOWN)
    for number, column in enumerate(columns):
        found.add_column(column, justify="left" if number == 0 else "right")
    return found


# ---- from outside ------------------------------------------------------------------------------


def outside() -> list[str]:
    wanted = min(10 * GIB, available_bytes() * 3 // 4 // GIB * GIB)
    with HeldProgram("touched_memory", "alone", str(wanted)) as program:
        ours = fastest(lambda: outside_statement(program.pid))
        cat = fastest(lambda: run("cat", f"/proc/{program.pid}/smaps"))
        command = fastest(lambda: run(ramledger_command(), "explain", str(program.pid)))
        rss = total(smaps(program.pid))
        statement = outside_statement(program.pid)
    rows = table(f"From outside: a process of {rss / GIB:.1f} GiB in pages of 4 KiB", "", "s", "×")
    rows.add_row("cat /proc/PID/smaps", f"{cat:.3f}", "1.0")
    rows.add_row("statement", f"{ours:.3f}", f"{ours / cat:.1f}")
    rows.add_row("ramledger explain PID, interpreter and imports too", f"{command:.3f}", "")
    console.print(rows)
    assert statement.rss_bytes >= wanted
    return [f"a statement from outside took {ours:.2f} s"] if ours > OUTSIDE_SECONDS else []


def available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def fastest(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def ramledger_command() -> str:
    return str(Path(sys.executable).with_name("ramledger"))


# ---- from inside -------------------------------------------------------------------------------


def inside() -> list[str]:
    missed: list[str] = []
    ours = table(
        "Inside: one whole statement",
        *("heap", "objects", "gc-tracked", "CPU s", "s per million objects"),
        *("s per million tracked", "temporary MiB"),
    )
    theirs = table("The same heaps, CPU s per million objects", "", "ramledger", *names())
    for heap in HEAPS:
        costs, tracked, objects = measured(heap)
        cost = costs["ramledger"]
        per_million = cost["seconds"] / objects * 1e6
        ours.add_row(
            heap, f"{objects:,}", f"{tracked:,}", f"{cost['seconds']:.2f}", f"{per_million:.2f}",
            f"{cost['seconds'] / tracked * 1e6:.2f}", f"{cost['peak_bytes'] / MIB:.1f}",
        )  # fmt: skip
        peers = [costs[peer]["per_million"] for peer, _, _ in PEERS]
        theirs.add_row(heap, f"{per_million:.2f}", *map(_cell, peers))
        if per_million > CENSUS_SECONDS:
            missed.append(f"{heap}: {per_million:.2f} s per million objects")
        if cost["peak_bytes"] > CENSUS_BYTES:
            missed.append(f"{heap}: {cost['peak_bytes'] / MIB:.1f} MiB of temporary memory")
    console.print(ours)
    console.print(theirs)
    return missed


def _cell(seconds: float) -> str:
    """Nothing where there is no root to measure: a process that has torch and holds no data."""
    return f"{seconds:.2f}" if seconds >= 0.005 else "-"


def names() -> list[str]:
    return [name if scale == 1 else f"{name} (a tenth)" for _, name, scale in PEERS]


def measured(heap: str) -> tuple[dict[str, dict[str, float]], int, int]:
    """Costs by tool, gc-tracked objects, and all objects alive as guppy counts them."""
    costs: dict[str, dict[str, float]] = {}
    with HeldProgram("large_heap", "alone", heap, "1") as program:
        tracked = program.truth["tracked"]
        for name in ("ramledger", *(peer for peer, _, scale in PEERS if scale == 1)):
            costs[name] = call(program, name)
        objects = int(costs["guppy"]["objects"])
    with HeldProgram("large_heap", "alone", heap, "0.1") as program:
        small = call(program, "guppy")["objects"]
        for name in (peer for peer, _, scale in PEERS if scale < 1):
            costs[name] = call(program, name)
    for peer, _, scale in PEERS:
        counted = objects if scale == 1 else small
        costs[peer]["per_million"] = costs[peer]["seconds"] / counted * 1e6
    return costs, tracked, objects


def call(program: HeldProgram, name: str) -> dict[str, float]:
    answer: dict[str, Any] = program.say(f"call {CALLS} {name}_costs")
    return answer


# ---- entering ----------------------------------------------------------------------------------


def entering() -> list[str]:
    rows = table(
        "Entering a process that knows nothing of us: ramledger explain PID --inside",
        *("process", "RSS MiB", "grows by MiB", "the second time", "s"),
    )
    missed = []
    for name, modules in {"numpy": ("numpy",), "torch": ("torch",)}.items():
        with HeldProgram("only_imports", "alone", *modules) as program:
            before = total(smaps(program.pid))
            started = time.perf_counter()
            run(ramledger_command(), "explain", str(program.pid), "--inside", "--json")
            seconds = time.perf_counter() - started
            after = total(smaps(program.pid))
            run(ramledger_command(), "explain", str(program.pid), "--inside", "--json")
            second = total(smaps(program.pid)) - after
        rows.add_row(
            name, f"{before / MIB:.0f}", f"{(after - before) / MIB:.1f}", f"{second / MIB:.1f}",
            f"{seconds:.2f}",
        )  # fmt: skip
        if after - before > GROWTH_BYTES:
            missed.append(f"{name}: entering took {(after - before) / MIB:.1f} MiB")
    console.print(rows)
    return missed


if __name__ == "__main__":
    sys.exit(main())
