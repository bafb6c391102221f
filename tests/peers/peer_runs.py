"""One workload under each tool, a fresh process each: what the tool says of its memory.

`tests/programs/rl_like.py` is the workload; the truth beside it is read from the kernel.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ramledger.ledger import Statement
from tests.support.held_program import HeldProgram
from tests.support.kernel_truth import library_paths, resident_bytes, smaps, total
from tests.support.places import PROGRAMS

CALLS = Path(__file__).parent / "peer_calls.py"


@dataclass(frozen=True, slots=True)
class Truth:
    """The workload with no tool in it."""

    rss_bytes: int
    library_bytes: int
    replay_bytes: int
    replay_resident_bytes: int
    anonymous: dict[int, int]  # resident bytes of nameless mappings, by their size

    @property
    def replay_untouched_bytes(self) -> int:
        return self.replay_bytes - self.replay_resident_bytes

    def is_scratch(self, size: int) -> bool:
        """Whether a mapping of this size is there that is hardly touched."""
        return size > 1 << 20 and self.anonymous.get(size, size) < size // 10


@dataclass(frozen=True, slots=True)
class Said:
    """What one tool says: in all, of the replay, and how much of RSS that truly explains."""

    tool: str
    bytes: int
    replay_bytes: int
    rss_bytes: int
    resident_bytes: int
    by: str

    @property
    def fraction(self) -> float:
        return self.bytes / self.rss_bytes

    @property
    def resident_fraction(self) -> float:
        return self.resident_bytes / self.rss_bytes


@cache
def truth(scale: float) -> Truth:
    """Read it from the kernel while the program waits."""
    with HeldProgram("rl_like", "alone", str(scale)) as program:
        mappings = smaps(program.pid)
        libraries = library_paths(mappings)
        address, size = program.truth["arrays"]["observations"]
        return Truth(
            rss_bytes=total(mappings),
            library_bytes=total([m for m in mappings if m["path"] in libraries]),
            replay_bytes=size,
            replay_resident_bytes=resident_bytes(program.pid, address, address + size),
            anonymous={m["stop"] - m["start"]: m["Rss"] for m in mappings if not m["path"]},
        )


def ramledger(scale: float, way: str) -> tuple[Said, Statement]:
    """Our own statement; owned bytes are resident by the page table."""
    with HeldProgram("rl_like", way, str(scale)) as program:
        statement = Statement.from_dict(program.statement())
    (replay,) = (e for e in statement.entries if e.account.endswith("observations"))
    named = statement.rss_bytes - statement.unexplained_bytes
    owned = round(statement.owned_fraction * statement.rss_bytes)
    said = Said(
        tool=f"ramledger, {way}",
        bytes=named,
        replay_bytes=replay.resident_bytes,
        rss_bytes=statement.rss_bytes,
        resident_bytes=owned,
        by="owner",
    )
    return said, statement


def called(name: str, by: str, *options: str) -> Callable[[float], Said]:
    """A tool that is called in the program, when all memory is there."""

    def run(scale: float) -> Said:
        function = f"{name.split()[-1]}_says"
        with HeldProgram("rl_like", "alone", str(scale), options=options) as program:
            said = program.say(f"call {CALLS} {function}")
        known = said.get("named_bytes", said["bytes"])
        return judged(name, said["bytes"], said["replay_bytes"], known, by, truth(scale))

    return run


def memray(scale: float) -> Said:
    """The high-water mark by call site, natively allocated memory included."""
    with tempfile.TemporaryDirectory() as folder:
        output = f"{folder}/memray.bin"
        run_under(["-m", "memray", "run", "-q", "-o", output], scale)
        from memray import AllocatorType, FileReader

        reader = FileReader(output)
        records = list(reader.get_high_watermark_allocation_records(merge_threads=True))
    sizes = [record.size for record in records]
    # of OpenBLAS' 32 MiB of scratch memory next to nothing is touched
    mapped = [record.size for record in records if record.allocator == AllocatorType.MMAP]
    scratch = max((size for size in mapped if truth(scale).is_scratch(size)), default=0)
    return judged("memray", sum(sizes), max(sizes), sum(sizes) - scratch, "call site", truth(scale))


def fil(scale: float) -> Said:
    """The peak by call site, from its folded stacks."""
    with tempfile.TemporaryDirectory() as folder:
        run_under(["-m", "filprofiler", "--no-browser", "-o", folder, "run"], scale)
        (report,) = Path(folder).glob("*/peak-memory.prof")
        sizes = [int(line.rpartition(" ")[2]) for line in report.read_text().splitlines()]
    return judged("Fil", sum(sizes), max(sizes), sum(sizes), "call site", truth(scale))


def run_under(options: list[str], scale: float) -> None:
    command = [sys.executable, *options, str(PROGRAMS / "rl_like.py"), str(scale)]
    environment = os.environ | {"PYTHONPATH": str(PROGRAMS)}
    subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=True, env=environment
    )


def judged(tool: str, said: int, replay: int, known: int, by: str, true: Truth) -> Said:
    """How much of RSS it explains at most: untouched pages of the replay are not RSS.

    Nor do these tools see the pages of libraries, psutil excepted.
    """
    resident = known
    if replay >= true.replay_bytes:
        resident = min(known - true.replay_untouched_bytes, true.rss_bytes - true.library_bytes)
    return Said(tool, said, replay, true.rss_bytes, resident, by)


PEERS: dict[str, Callable[[float], Said]] = {
    "memray": memray,
    "fil": fil,
    "tracemalloc": called("tracemalloc", "line", "-X", "tracemalloc=1"),
    "guppy": called("guppy", "type"),
    "muppy": called("pympler muppy", "type"),
    "asizeof": called("pympler asizeof", "owner"),
    "objgraph": called("gc, objgraph", "type"),
    "psutil": called("smaps, psutil", "kind"),
}
