"""Memory pressure (PSI): the share of time in which tasks waited for memory."""

import os
from dataclasses import dataclass

from ramledger.measure.cgroups import group_of, read_file


@dataclass(frozen=True, slots=True)
class Pressure:
    """Percent of the last 10 seconds in which some tasks, or all of them, waited for memory."""

    some_avg10: float
    full_avg10: float
    source: str


def memory_pressure(root: str = "/", pid: int | None = None) -> Pressure | None:
    """Memory pressure of the control group of `pid` if it is recorded there, else of the host.

    None where the kernel counts no pressure (before 4.20, or booted with psi=0).
    """
    if pid is not None:
        group = group_of(pid, 2, root)
        for level in group.levels if group else ():
            text = read_file(os.path.join(level.directory, "memory.pressure"))
            found = parse_pressure(text or "", f"cgroup {level.path}")
            if found is not None:
                return found
    return parse_pressure(read_file(os.path.join(root, "proc/pressure/memory")) or "", "host")


def parse_pressure(text: str, source: str) -> Pressure | None:
    """Read `some avg10=0.12 avg60=… total=…` and `full …`; None if either is missing."""
    averages: dict[str, float] = {}
    for line in text.splitlines():
        who, *fields = line.split()
        for field in fields:
            name, _, value = field.partition("=")
            if name == "avg10":
                averages[who] = float(value)
    if "some" not in averages or "full" not in averages:
        return None
    return Pressure(averages["some"], averages["full"], source)
