"""The RSS of this process in microseconds: cheap enough for the start and end of every phase."""

import os
import sys
from contextlib import suppress

from ramledger.descriptors import OwnedDescriptor, open_kernel_file, read_beginning

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Meter:
    """RSS now and the peak since the last reset, of this very process.

    statm lags by per-CPU counters, a few hundred KiB on small machines: the price of reading it in
    microseconds. Snapshots use smaps.
    """

    def __init__(self) -> None:
        self.can_reset = _reset_peak()

    def rss_bytes(self) -> int:
        """Resident bytes; 0 if /proc cannot be read."""
        return _statm_bytes()[0]

    def anon_bytes(self) -> int:
        """Resident bytes without a file behind them; 0 if /proc cannot be read."""
        resident, shared = _statm_bytes()
        return resident - shared

    def split_bytes(self) -> tuple[int, int, int]:
        """(anonymous, file, shared memory) resident bytes."""
        fields = _status_fields(b"RssAnon:", b"RssFile:", b"RssShmem:")
        return fields[0], fields[1], fields[2]

    def peak_bytes(self) -> int:
        """The largest RSS since `reset_peak`, or since the start if the kernel refuses resets."""
        return _status_fields(b"VmHWM:")[0]

    def reset_peak(self) -> None:
        """Set the peak to the current RSS, if the kernel allows it."""
        if self.can_reset:
            self.can_reset = _reset_peak()


_statm: OwnedDescriptor | None = None  # one per process: descriptors may be scarce


def _statm_bytes() -> tuple[int, int]:
    """(resident bytes, the part of them that has a file or shared memory behind it)."""
    for _ in range(2):
        file = _statm
        try:
            if file is not None:
                fields = os.pread(file.fileno(), 64, 0).split()
                return int(fields[1]) * PAGE_BYTES, int(fields[2]) * PAGE_BYTES
        except (OSError, ValueError, IndexError):
            pass  # the program closed it, or this is a forked child
        _reopen_statm()
    return 0, 0


def _reopen_statm() -> None:
    global _statm
    before, _statm = _statm, None
    if before is not None:
        before.close()
    with suppress(OSError):
        _statm = open_kernel_file("/proc/self/statm")


def _reset_peak() -> bool:
    # writing 5 resets VmHWM to the current RSS: Documentation/filesystems/proc.rst
    try:
        with open_kernel_file("/proc/self/clear_refs", os.O_WRONLY) as file:
            os.write(file.fileno(), b"5")
    except OSError:
        return False
    return sys.platform == "linux"


def _status_fields(*names: bytes) -> list[int]:
    found = dict.fromkeys(names, 0)
    with suppress(OSError):
        for line in read_beginning("/proc/self/status", 8192).splitlines():
            name = line.partition(b"\t")[0]
            if name in found:
                found[name] = int(line.split()[1]) * 1024
    return [found[name] for name in names]
