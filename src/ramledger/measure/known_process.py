"""A process identified by pid and start time: a signal never reaches a later one with its pid."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from ramledger.descriptors import OwnedDescriptor
from ramledger.errors import MeasureError
from ramledger.measure import proc


@dataclass(frozen=True, slots=True)
class KnownProcess:
    """A pid and its start time in ticks of 10 ms; no pid is reused within one tick."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> Self:
        """The process that has this pid now; MeasureError without one."""
        return cls(pid, proc.read_stat(pid).start_ticks)

    @property
    def is_there(self) -> bool:
        """Whether it has not been reaped yet."""
        try:
            return proc.read_stat(self.pid).start_ticks == self.start_ticks
        except MeasureError:
            return False

    def send(self, number: int) -> bool:
        """Send it a signal; False if it is gone or may not be signaled."""
        with suppress(ProcessLookupError, PermissionError):
            handle = _open_handle(self.pid)
            try:
                # checked while the handle is open: the pid cannot be reused meanwhile
                if not self.is_there:
                    return False
                if handle is None:
                    os.kill(self.pid, number)
                else:
                    signal.pidfd_send_signal(handle.fileno(), number)
                return True
            finally:
                if handle is not None:
                    handle.close()
        return False

    def send_to_group(self, number: int) -> bool:
        """Send a signal to the process group that it leads, or led.

        The kernel does not reuse its pid while the group has members: another process with this
        pid means that the group is empty.
        """
        if os.path.exists(f"{proc.PROC}/{self.pid:d}") and not self.is_there:
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
            return True
        return False


def _open_handle(pid: int) -> OwnedDescriptor | None:
    """A pidfd; None if the kernel, the C library or a sandbox lacks it, or none is free."""
    try:
        return OwnedDescriptor(os.pidfd_open(pid))
    except ProcessLookupError:
        raise
    except (OSError, AttributeError):
        return None
