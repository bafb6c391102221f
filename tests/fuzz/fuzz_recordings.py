"""Mutated recordings through everything that reads one: `python -m tests.fuzz.fuzz_recordings`.

Each mutation goes to one view, in the same process, through the functions the commands call.
Whatever is raised but a RamledgerError, takes long, or reaches a terminal raw is a failure.
"""

import argparse
import hashlib
import io
import json
import os
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console

from ramledger.diagnose.verdict import diagnose
from ramledger.errors import RamledgerError
from ramledger.report.html.page import embedded
from ramledger.report.html.page_data import detail_data, page_data
from ramledger.report.json.openmetrics import openmetrics
from ramledger.report.json.run_document import run_document
from ramledger.report.terminal.diagnosis_text import print_diagnosis
from ramledger.report.terminal.run_text import print_overview
from ramledger.run.model import Run
from tests.fuzz.mutations import mutated, remember
from tests.fuzz.sound_recordings import sound_recordings, thinned

MOST_SECONDS = 10.0
MOST_BYTES = 300 << 20
_TOLD = 10_000  # mutations between two lines on how far it is


def _diagnose(run: Run) -> str:
    found = diagnose(run)
    json.dumps(found.to_dict(), allow_nan=False)
    out = io.StringIO()
    print_diagnosis(found, Console(file=out, width=100, highlight=False), verbose=True)
    return out.getvalue()


def _report(run: Run) -> str:
    embedded(page_data(run, diagnose(run)))
    return ""


def _terminal(run: Run) -> str:
    out = io.StringIO()
    print_overview(run, diagnose(run), Console(file=out, width=100))
    return out.getvalue()


def _live(run: Run) -> str:
    """What `run --json`, `--prometheus` and a page that zooms in show."""
    json.dumps(run_document(run, run.path), allow_nan=False)
    openmetrics(run)
    json.dumps(detail_data(run, 1.0, 5.0), allow_nan=False)
    return ""


VIEWS: dict[str, Callable[[Run], str]] = {
    "diagnose": _diagnose, "report": _report, "terminal": _terminal, "live": _live,
}  # fmt: skip


def status_bytes(field: str) -> int:
    """A size of this process, as the kernel tells it."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field))


@dataclass
class Tally:
    """What came of so many mutations."""

    tried: Counter[str] = field(default_factory=Counter)
    refused: int = 0  # no recording at all: a RecordingError
    failures: Counter[str] = field(default_factory=Counter)  # by view and place
    slowest_seconds: float = 0.0
    peak_bytes: int = 0

    def lines(self) -> list[str]:
        shown = [f"{view}: {count:,} mutations" for view, count in sorted(self.tried.items())]
        shown.append(f"refused as no recording: {self.refused:,}")
        shown.append(f"slowest answer: {self.slowest_seconds:.2f} s of CPU")
        shown.append(f"RSS above that at the start: {self.peak_bytes / (1 << 20):.0f} MiB")
        shown.append(f"failures: {self.failures.total():,} at {len(self.failures)} places")
        return shown + [f"  {count:6,} × {where}" for where, count in self.failures.most_common()]

    @property
    def is_clean(self) -> bool:
        is_bounded = self.slowest_seconds <= MOST_SECONDS and self.peak_bytes <= MOST_BYTES
        return not self.failures and is_bounded


class Fuzzer:
    """Mutations number `first`, `first + 1` … of one seed: each can be made again by its number."""

    def __init__(self, seed: int, keep: str = "") -> None:
        self._seed, self._keep = seed, keep
        self._sound = {name: thinned(lines) for name, lines in sound_recordings().items()}
        self._names = sorted(self._sound)
        for lines in self._sound.values():
            remember(lines)
        self._fd = os.memfd_create("mutated")
        self.tally = Tally()

    def case(self, number: int) -> tuple[str, str, bytes]:
        """The view, the recording it came from, and the mutated bytes."""
        rng = random.Random(f"{self._seed}/{number}")
        view = sorted(VIEWS)[number % len(VIEWS)]
        name = rng.choice(self._names)
        return view, name, mutated(self._sound[name], rng)

    def run(self, first: int, count: int) -> Tally:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # the peak counts from here
        before_bytes = status_bytes("VmRSS:")
        for number in range(first, first + count):
            self._try(number)
            if (number + 1 - first) % _TOLD == 0:
                done = f"{number + 1 - first:,} of {count:,}"
                print(
                    f"{done}, {self.tally.failures.total()} failures", file=sys.stderr, flush=True
                )
        self.tally.peak_bytes = status_bytes("VmHWM:") - before_bytes
        return self.tally

    def _try(self, number: int) -> None:
        view, name, data = self.case(number)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, data, 0)
        self.tally.tried[view] += 1
        started = time.process_time()
        try:
            text = VIEWS[view](Run.read(f"/proc/self/fd/{self._fd}"))
            if any(not c.isprintable() and c != "\n" for c in text):
                self._failed(number, view, name, data, "a control character is printed")
        except RamledgerError:
            self.tally.refused += 1
        except Exception as error:
            self._failed(number, view, name, data, _place(error))
        took = time.process_time() - started
        self.tally.slowest_seconds = max(self.tally.slowest_seconds, took)
        if took > MOST_SECONDS:
            self._failed(number, view, name, data, f"{took:.0f} s")

    def _failed(self, number: int, view: str, name: str, data: bytes, where: str) -> None:
        key = f"{view}: {where}"
        if self._keep and key not in self.tally.failures:
            tag = hashlib.sha256(key.encode()).hexdigest()[:8]
            with open(os.path.join(self._keep, f"{view}-{tag}.ledger.jsonl"), "wb") as file:
                file.write(data)
            print(f"mutation {number} of {name}: {key}", file=sys.stderr, flush=True)
        self.tally.failures[key] += 1


def _place(error: Exception) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "ramledger" in f.filename]
    last = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(last.filename)}:{last.lineno} {error!r:.100}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", default="", help="folder for the first recording of each failure")
    options = parser.parse_args()
    tally = Fuzzer(options.seed, options.keep).run(options.first, options.count)
    print("\n".join(tally.lines()))
    return 0 if tally.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
