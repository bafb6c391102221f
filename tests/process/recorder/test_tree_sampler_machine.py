"""Light samples beyond the single process: PSS, the host, the limit, and what a sample costs."""

import mmap
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ramledger.event_encoding import encode
from ramledger.event_parts import ProcessMemory
from ramledger.recorder import tree_sampler
from ramledger.recorder.tree_sampler import (
    SampledProcess,
    TreeSample,
    TreeSampler,
    headroom,
    sample_event,
)
from tests.support.process_families import (
    FAMILY,
    LAG_BYTES,
    MIB,
    Program,
    kill,
    smaps_bytes,
)
from tests.support.waiting import wait_until

Start = Callable[[str], Program]
Sampling = Callable[..., TreeSampler]


def pids_of(sample: TreeSample) -> set[int]:
    return {process.pid for process in sample.processes}


class TestThePss:
    SHARING = (
        FAMILY
        + "shared = mmap.mmap(-1, 32 << 20)\nshared[:] = bytes(len(shared))\n"
        + "def child(depth):\n"
        + "    if not os.fork():\n"
        + "        seen = sum(shared[::4096])\n"
        + "        os.write(telling, f'{os.getpid()}\\n'.encode()); signal.pause(); os._exit(0)\n"
        + "[child(0) for _ in range(3)]\nhold(pids=names(3))"
    )

    def test_shared_pages_count_once(self, program: Start, sampler_of: Sampling) -> None:
        one = program(self.SHARING)
        try:
            sampler = sampler_of(one.pid)
            sample = sampler.sample()
            truth = {pid: smaps_bytes(pid, "Pss")["Pss"] for pid in pids_of(sample)}
            assert sample.tree_pss_bytes is not None
            assert abs(sample.tree_pss_bytes - sum(truth.values())) <= LAG_BYTES
            assert sampler.pss_bytes.keys() == truth.keys()
            assert sample.resident_bytes - sample.tree_pss_bytes > 3 * 31 * MIB
        finally:
            kill(*one.facts["pids"])

    def test_it_is_read_rarely(self, program: Start, sampler_of: Sampling) -> None:
        sampler = sampler_of(program("hold()").pid)
        read = [sampler.sample().tree_pss_bytes for _ in range(50)]
        assert read[0] is not None
        assert read[1:] == [None] * 49

    def test_it_is_not_read_where_it_would_cost_too_much(
        self, program: Start, sampler_of: Sampling, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pid = program("hold()").pid
        monkeypatch.setattr(tree_sampler, "_PSS_SECONDS_PER_PROCESS", 1.0)
        sampler = sampler_of(pid)
        assert sampler.sample().tree_pss_bytes is None
        assert sampler.read_pss(sampler.sample().processes) is not None

    def test_a_process_of_another_user(self, program: Start) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        one = program("hold()")
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of threads that other tests left; the fork only reads /proc
            warnings.simplefilter("ignore", DeprecationWarning)
            forked = os.fork()
        if not forked:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            sample = TreeSampler(one.pid).sample()
            os.write(writing, f"{sample.resident_bytes} {sample.tree_pss_bytes}".encode())
            os._exit(0)
        os.waitpid(forked, 0)
        resident, pss = os.read(reading, 100).decode().split()
        os.close(reading)
        os.close(writing)
        assert abs(int(resident) - smaps_bytes(one.pid, "Rss")["Rss"]) <= LAG_BYTES
        assert pss == "None"


class TestTheMachine:
    def test_shared_memory_of_the_host(self, sampler_of: Sampling) -> None:
        if not os.access("/dev/shm", os.W_OK):
            pytest.skip("no /dev/shm")
        sampler = sampler_of(os.getpid())
        sampler.sample()  # what is there by now is not of this run
        path = Path(f"/dev/shm/ramledger-test-{os.getpid()}")
        try:
            path.write_bytes(bytes(32 * MIB))
            assert sampler.sample().shm_bytes >= 32 * MIB
        finally:
            path.unlink()

    def test_available_memory(self, sampler_of: Sampling) -> None:
        before = _available_bytes()
        sampled = sampler_of(os.getpid()).sample().available_bytes
        after = _available_bytes()
        slack = 256 * MIB  # for what comes and goes between two readings
        assert min(before, after) - slack < sampled < max(before, after) + slack

    def test_the_usage_of_a_group_with_a_limit(self, sampler_of: Sampling) -> None:
        with _memory_group(256 * MIB) as group, _in_group(group) as process:
            sample = sampler_of(process.pid).sample()
            room = headroom(process.pid)
            assert sample.usage_bytes is not None
            assert 64 * MIB < sample.usage_bytes < 96 * MIB
            assert room is not None
            assert room.limit.bytes == 256 * MIB
            assert abs(room.bytes - (256 * MIB - sample.usage_bytes)) < 4 * MIB

    def test_no_group_no_usage(self) -> None:
        from ramledger.measure.limits import FoundLimit

        host = FoundLimit(100, "host RAM", 40, "host")
        virtual = FoundLimit(10, "RLIMIT_AS (virtual memory)", 5, "process", "fail")
        assert tree_sampler._usage_and_available([virtual, host]) == (None, 60)
        groups = [FoundLimit(50, "tight", 20, "cgroup"), FoundLimit(80, "wide", 70, "cgroup")]
        assert tree_sampler._usage_and_available([virtual, *groups, host]) == (20, 60)


def _available_bytes() -> int:
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) * 1024 for line in file if "MemAvailable" in line)


class _memory_group:
    """A control group of this machine, version 1 or 2, with a limit; skips without the right."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        version_1 = Path("/sys/fs/cgroup/memory")
        self.folder = (version_1 if version_1.is_dir() else version_1.parent) / "ramledger-test"
        self.file = "memory.limit_in_bytes" if version_1.is_dir() else "memory.max"

    def __enter__(self) -> Path:
        try:
            self.folder.mkdir(exist_ok=True)
            (self.folder / self.file).write_text(str(self.limit_bytes))
        except OSError as error:
            if self.folder.is_dir():
                self.folder.rmdir()
            pytest.skip(f"no control group can be made here: {error.strerror}")
        return self.folder

    def __exit__(self, *_: object) -> None:
        wait_until(self._is_removed)

    def _is_removed(self) -> bool:
        try:
            self.folder.rmdir()
        except OSError:
            return False
        return True


class _in_group:
    """A process in that group that holds 64 MiB."""

    def __init__(self, group: Path) -> None:
        code = (
            f"open('{group}/cgroup.procs', 'w').write('0')\n"
            "held = bytearray(b'x') * (64 << 20)\nprint(flush=True)\ninput()"
        )
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-c", code], **pipes
        )

    def __enter__(self) -> subprocess.Popen[bytes]:
        assert self.process.stdout is not None
        assert self.process.stdout.readline()
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        with self.process:
            pass


def test_a_sample_as_an_event() -> None:
    one = SampledProcess(7, 1, "a", 10, 20, 30, 40, 5)
    two = SampledProcess(8, 7, "b", 1, 2, 3, 4, 1)
    three = SampledProcess(9, 7, "b", 1, 1, 1, 1, 1)
    sample = TreeSample((two, one, three), 9, None, 77, None, 50)
    assert sample.resident_bytes == 69
    event = sample_event(sample, 1.5)
    assert event.processes == {process.pid: process.memory for process in (one, two, three)}
    assert encode(event) == {
        "event": "sample", "t": 1.5, "tree_bytes": 50, "shm_bytes": 9, "available_bytes": 77,
        "processes": {
            "7": {"anon_bytes": 10, "file_bytes": 20, "shmem_bytes": 30, "swap_bytes": 40,
                  "threads": 5},
            "8": {"anon_bytes": 1, "file_bytes": 2, "shmem_bytes": 3, "swap_bytes": 4,
                  "threads": 1},
            "9": {"anon_bytes": 1, "file_bytes": 1, "shmem_bytes": 1, "swap_bytes": 1,
                  "threads": 1},
        },
    }  # fmt: skip
    short = sample_event(sample, 1.5, most_processes=1, inherited_bytes={7: 5, 8: 1})
    assert list(short.processes) == [7]
    assert short.other_processes == ProcessMemory(2, 3, 4, 5, 2)
    assert short.other_inherited_bytes == 1
    known = sample_event(TreeSample((one,), 0, 5, 6, 7, 0), 0.0)
    assert (known.cgroup_bytes, known.tree_pss_bytes) == (5, 7)


def test_what_a_sample_costs(program: Start, sampler_of: Sampling) -> None:
    """Little more than to open, read and close one small file a process."""
    one = program(FAMILY + "[child(0) for _ in range(50)]\nhold(pids=names(50))")
    pids = [one.pid, *one.facts["pids"]]
    try:
        sampler = sampler_of(one.pid)
        for _ in range(5):
            sampler.sample()

        def read_all() -> None:
            for pid in pids:
                with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
                    file.read(8192)

        plain, sampled = (
            min(_seconds(call) for _ in range(30)) / len(pids)
            for call in (read_all, sampler.sample)
        )
    finally:
        kill(*one.facts["pids"])
    print(f"\na sample: {sampled * 1e6:.0f} µs a process; its status alone: {plain * 1e6:.0f} µs")
    assert sampled < 3 * plain


def _seconds(call: Callable[[], object]) -> float:
    began = time.thread_time()
    call()
    return time.thread_time() - began


def test_the_target_is_not_touched(program: Start, sampler_of: Sampling) -> None:
    """A sample brings no page in: what was reserved stays reserved."""
    one = program("reserved = mmap.mmap(-1, 64 << 20)\nhold()")
    before = smaps_bytes(one.pid, "Rss")["Rss"]
    sampler = sampler_of(one.pid)
    for _ in range(20):
        sampler.sample()
    assert smaps_bytes(one.pid, "Rss")["Rss"] - before <= mmap.PAGESIZE * 4
