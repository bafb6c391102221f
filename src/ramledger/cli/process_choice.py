"""`--match NAME` of a command that is about one process: that one, or a list to choose from."""

import re
import sys
from contextlib import suppress

from ramledger.errors import ConfigError, MeasureError, ProcessGoneError
from ramledger.ledger import printable
from ramledger.measure.proc import ProcessFacts, process_facts, read_status, status_bytes
from ramledger.recorder.watcher import matching_pids
from ramledger.units import format_bytes, format_duration

_MOST_LISTED = 20
_FIRST, _LAST = 40, 120  # characters of a long command line


def matching_process(name: str) -> ProcessFacts:
    """The process whose command line contains `name`; several are an error that lists them."""
    found = _with_sizes(matching_pids(re.compile(re.escape(name))))
    if len(found) == 1:
        return found[0][1]
    if not found:
        raise ProcessGoneError(
            f"no process has {name!r} in its command line",
            hint="whole command lines are searched: see `ps -ef`",
        )
    with suppress(OSError):
        for line in _table(found):
            print(line, file=sys.stderr)
    raise ConfigError(
        f"{len(found)} processes have {name!r} in their command lines",
        hint=f"choose one: ramledger explain {found[0][1].pid}; with its children: --tree",
    )


def _with_sizes(pids: list[int]) -> list[tuple[int, ProcessFacts]]:
    """RSS and facts, the largest first; without those that have ended or may not be read."""
    found = []
    for pid in pids:
        with suppress(MeasureError):
            rss_bytes = status_bytes(read_status(pid), "VmRSS")
            found.append((rss_bytes, process_facts(pid)))
    return sorted(found, key=lambda one: (-one[0], one[1].pid))


def _table(found: list[tuple[int, ProcessFacts]]) -> list[str]:
    lines = [f"  {'PID':>7}  {'RSS':>10}  {'age':>12}  command"]
    for rss_bytes, facts in found[:_MOST_LISTED]:
        size, age = format_bytes(rss_bytes), format_duration(facts.uptime_seconds)
        command = _shortened(facts.command)
        lines.append(f"  {facts.pid:>7}  {size:>10}  {age:>12}  {command}")
    if len(found) > _MOST_LISTED:
        lines.append(f"  and {len(found) - _MOST_LISTED} more")
    return lines


def _shortened(command: str) -> str:
    """Its beginning and its end, which tells trainings of one script apart."""
    shown = printable(command)
    return shown if len(shown) <= _FIRST + _LAST else f"{shown[:_FIRST]}…{shown[-_LAST:]}"
