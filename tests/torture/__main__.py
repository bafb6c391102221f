"""Everything that could harm a training, tried many times: `python -m tests.torture [PART…]`.

Prints a table of what was tried and what failed; exit code 1 if anything was harmed.
One part alone, with fewer tries: `python -m tests.torture entries --tries 10`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from tests.torture import table
from tests.torture.disks import disks
from tests.torture.entries import entries
from tests.torture.hostile import programs
from tests.torture.replay_kills import loads, saves, uploads
from tests.torture.run_kills import recorders, trainings
from tests.torture.tries import Row, Work, adopt_orphans

PARTS: dict[str, tuple[Callable[[Work, int], list[Row]], int]] = {
    "entries": (entries, 300),
    "recorder": (recorders, 200),
    "training": (trainings, 200),
    "save": (saves, 200),
    "load": (loads, 200),
    "upload": (uploads, 200),
    "programs": (programs, 1),
    "disks": (disks, 1),
}
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--tries", type=int, help="of each part; by default what the page reports")
    parser.add_argument("--seed", type=int, default=1, help="moments and orders follow from it")
    parser.add_argument("--workers", type=int, default=2, help="tries side by side")
    parser.add_argument("--only", default="", help="programs and disks with this in their name")
    parser.add_argument("--write", action="store_true", help="put the table into docs/torture.md")
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - PARTS.keys()
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if options.write and (options.parts or options.tries or options.only):
        parser.error("--write is for a whole run")
    return run(options)


def run(options: argparse.Namespace) -> int:
    adopt_orphans()
    work = Work(options.seed, max(1, options.workers), only=options.only)
    rows: list[Row] = []
    began = time.monotonic()
    is_interrupted = False
    try:
        for name in options.parts or PARTS:
            part, tries = PARTS[name]
            rows += part(work, options.tries or tries)
    except KeyboardInterrupt:
        is_interrupted = True
    print("\n".join(table.lines(rows)), flush=True)
    if is_interrupted:
        print("stopped: the part that was running is not in the table", file=sys.stderr)
        return EXIT_INTERRUPTED
    if options.write:
        table.write(rows, options.seed, time.monotonic() - began)
    return 1 if any(row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
