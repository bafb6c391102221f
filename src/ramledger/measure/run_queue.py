"""How crowded the machine is for this process: how often it ran when it wanted to.

/proc/self/schedstat has the nanoseconds that the main thread ran, and waited for a processor
(Documentation/scheduler/sched-stats.rst).
"""

from ramledger.descriptors import read_kernel_file

_LEAST_NANOSECONDS = 50_000_000  # below that, nothing is known yet


def running_share() -> float | None:
    """1.0 if the main thread never waits for a processor; None where the kernel does not say."""
    try:
        ran, waited = map(int, read_kernel_file("/proc/self/schedstat").split()[:2])
    except (OSError, ValueError):
        return None
    return ran / (ran + waited) if ran + waited >= _LEAST_NANOSECONDS else None
