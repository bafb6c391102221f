"""Limits of this machine and of a process that has one."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ramledger.errors import ProcessGoneError
from ramledger.measure import limits

GIB, MIB = 1 << 30, 1 << 20


def meminfo_bytes(name: str) -> int:
    text = Path("/proc/meminfo").read_text()
    found = re.search(rf"^{name}: +(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found.group(1)) * 1024


class TestThisMachine:
    def test_host_ram(self) -> None:
        before = meminfo_bytes("MemAvailable")
        host = [f for f in limits.limits(os.getpid()) if f.source == "host RAM"]
        found = (limits.available_bytes() or 0, host[0].headroom_bytes or 0)
        after = meminfo_bytes("MemAvailable")
        assert [f.bytes for f in host] == [meminfo_bytes("MemTotal")]
        # other programs take and release memory between two readings
        lowest, highest = 0.9 * min(before, after), 1.1 * max(before, after)
        assert all(lowest < available < highest for available in found)

    def test_address_space(self) -> None:
        def limit_address_space() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (GIB, resource.RLIM_INFINITY))

        program = "import sys; print('ready', flush=True); sys.stdin.read()"
        child = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=limit_address_space,
        )
        try:
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            first, *_ = limits.limits(child.pid)
            pages = int(Path(f"/proc/{child.pid}/statm").read_text().split()[0])
        finally:
            child.communicate(timeout=100)
        assert (first.bytes, first.source) == (GIB, "RLIMIT_AS (virtual memory)")
        assert first.usage_bytes == pages * resource.getpagesize()

    def test_gone(self) -> None:
        with pytest.raises(ProcessGoneError):
            limits.limits(1 << 22)

    def test_own_version_1_group_agrees_with_the_kernels_own_minimum(self) -> None:
        group = own_version_1_group()
        stat = (group / "memory.stat").read_text()
        found = re.search(r"^hierarchical_memory_limit (\d+)$", stat, re.MULTILINE)
        assert found is not None
        in_groups = [f.bytes for f in limits.limits(os.getpid()) if f.scope == "cgroup"]
        least_bytes = int(found.group(1))
        assert min(in_groups, default=None) == (least_bytes if least_bytes < 1 << 60 else None)


MEMORY_V1 = Path("/sys/fs/cgroup/memory")


def own_version_1_group() -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        group = MEMORY_V1 / path.lstrip("/")
        if controllers == "memory" and group.is_dir():
            return group
    pytest.skip("no version 1 memory controller here")
