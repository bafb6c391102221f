"""`ramledger replay inspect|verify|export DIR`: checkpoints of replay buffers."""

import json as json_format
import sys
from typing import Annotated, Any

from cyclopts import App, Parameter

from ramledger.ledger import printable
from ramledger.replay.buffer import ReplayBuffer
from ramledger.replay.checkpoints.exporting import export as write_export
from ramledger.replay.checkpoints.inspection import Inspection, verified_document
from ramledger.replay.checkpoints.inspection import inspect as inspect_checkpoint
from ramledger.replay.checkpoints.inspection import verify as verify_checkpoint
from ramledger.replay.storage.table_file import read_table
from ramledger.units import format_bytes

EXIT_DAMAGED = 3

EXAMPLES = """\
Examples:
  ramledger replay inspect runs/replay
  ramledger replay verify runs/replay --json
  ramledger replay export runs/replay transitions.npz
"""

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Tables = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]

app = App(name="replay", help_format="plaintext", help_epilogue=EXAMPLES)


@app.command
def inspect(folder: str, /, *, json: Flag = False) -> int:
    """Show what the newest save in a folder holds, and whether the buffer is oversized.

    Parameters
    ----------
    folder
        A folder that `ReplayBuffer.save` wrote to.
    json
        Print one JSON document.
    """
    found = inspect_checkpoint(folder)
    if json:
        print(json_format.dumps(found.to_dict(), indent=2))
    else:
        print("\n".join(map(printable, _lines(found))))
    return 0


@app.command
def verify(folder: str, /, *, json: Flag = False) -> int:
    """Read every block of every save and compare its checksum. Exit code 3 if one is damaged.

    Parameters
    ----------
    folder
        A folder that `ReplayBuffer.save` wrote to.
    json
        Print one JSON document.
    """
    saves = verify_checkpoint(folder, None if json else _progress("verified"))
    if json:
        print(json_format.dumps(verified_document(folder, saves), indent=2))
    else:
        for save in saves:
            state = "whole" if save.is_whole else "damaged"
            size = format_bytes(save.checked_bytes)
            print(f"save {save.number}: {state}, {save.blocks} blocks, {size}")
            for problem in save.problems:
                print(f"  {printable(str(problem))}")
    return 0 if all(save.is_whole for save in saves) else EXIT_DAMAGED


@app.command
def export(
    folder: str,
    target: str,
    /,
    *,
    table: Tables = (),
    force: Flag = False,
    json: Flag = False,
) -> int:
    """Write all transitions to one file: .npz, .h5 or .parquet by its name.

    Parameters
    ----------
    folder
        A folder that `ReplayBuffer.save` wrote to.
    target
        The file to write.
    table
        NAME=FILE.npy: a table that observations are windows of.
    force
        Overwrite the file.
    json
        Print one JSON document.
    """
    tables = {name: read_table(path) for name, _, path in _parted(table)}
    buffer = ReplayBuffer.load(folder, tables=tables, lazy=True)
    shapes = write_export(buffer, target, overwrite=force)
    if json:
        print(json_format.dumps({"schema": "ramledger.replay.export/1", "columns": shapes}))
    else:
        print(f"{printable(target)}: {len(buffer):,} transitions")
        for name, shape in shapes.items():
            print(f"  {printable(name)}  {'×'.join(map(str, shape))}")
    return 0


def _parted(tables: tuple[str, ...]) -> list[tuple[str, str, str]]:
    return [text.partition("=") for text in tables]


def _lines(found: Inspection) -> list[str]:
    share = found.transitions / found.capacity
    lines = [
        f"{found.folder}: newest save {found.number}; {len(found.saves)} kept",
        f"transitions  {found.transitions:,} of {found.capacity:,} ({share:.0%}), "
        f"{found.total_added:,} added by {found.environments} environments",
        f"each takes   {found.bytes_per_transition:,.0f} B, "
        f"{found.naive_bytes_per_transition / found.bytes_per_transition:,.1f} times less than "
        "with both observations in full",
        f"in memory    {format_bytes(found.reserved_bytes)} at most",
        f"on disk      {format_bytes(found.checkpoint_bytes)}",
    ]
    if found.never_reached_bytes:
        lines.append(
            f"right size   the run added {found.total_added:,}: a capacity of that many would "
            f"reserve {format_bytes(found.never_reached_bytes)} less"
        )
    return lines


def _progress(what: str) -> Any:
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        ending = "\n" if done == total else "\r"
        print(f"{format_bytes(done)} of {format_bytes(total)} {what}", end=ending, file=sys.stderr)

    return show
