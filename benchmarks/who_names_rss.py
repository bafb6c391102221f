"""One training-like workload under every tool: how much of its RSS has a name, and a true one.

Each tool gets a fresh process. What it says is its own sum; what of that is truly resident is
judged by the page table, in the tool's favor where it cannot be told.
"""

import sys

from rich import box
from rich.console import Console
from rich.table import Table

from tests.peers.peer_runs import PEERS, Said, ramledger, truth

MIB = 1 << 20
SCALE = 1.0


def main() -> int:
    true = truth(SCALE)
    ours = [ramledger(SCALE, way)[0] for way in ("claimed", "bare")]
    theirs = [run(SCALE) for run in PEERS.values()]
    rows = Table(
        title=f"RSS {true.rss_bytes / MIB:.1f} MiB; the replay buffer has "
        f"{true.replay_resident_bytes / MIB:.1f} MiB resident of {true.replay_bytes / MIB:.1f}",
        title_justify="left",
        box=box.MARKDOWN,
    )
    rows.add_column("tool")
    for column in ("says MiB", "of RSS", "truly resident", "by", "replay MiB"):
        rows.add_column(column, justify="right")
    for said in (*ours, *theirs):
        rows.add_row(*_cells(said))
    console = Console(width=120)
    console.print(rows)
    return 0 if all(_leads(said, theirs) for said in ours) else 1


def _cells(said: Said) -> tuple[str, ...]:
    replay = f"{said.replay_bytes / MIB:.1f}" if said.replay_bytes else "not seen"
    if said.by == "type" and said.replay_bytes:
        replay = f"in {said.replay_bytes / MIB:.1f}"
    return (
        said.tool,
        f"{said.bytes / MIB:.1f}",
        f"{said.fraction:.0%}",
        f"{said.resident_fraction:.0%}",
        said.by,
        replay,
    )


def _leads(ours: Said, theirs: list[Said]) -> bool:
    return all(ours.resident_fraction > peer.resident_fraction for peer in theirs)


if __name__ == "__main__":
    sys.exit(main())
