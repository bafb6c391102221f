"""Light samples against the kernel's own page-by-page answer, on real families of processes."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ramledger.errors import ProcessGoneError
from ramledger.recorder import tree_sampler
from ramledger.recorder.tree_sampler import SampledProcess, TreeSample, TreeSampler, command_of
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


def only(sample: TreeSample, pid: int) -> SampledProcess:
    return next(process for process in sample.processes if process.pid == pid)


class TestOneProcess:
    def test_the_split_of_rss(self, program: Start, sampler_of: Sampling, tmp_path: Path) -> None:
        data = tmp_path / "data"
        data.write_bytes(bytes(24 * MIB))
        one = program(
            f"file = open({str(data)!r}, 'r+b')\n"
            "hold()\n"
            "anon = bytearray(os.urandom(1)) * (64 << 20)\n"
            "shared = mmap.mmap(-1, 16 << 20)\n"
            "shared[:] = bytes(len(shared))\n"
            "mapped = mmap.mmap(file.fileno(), 0)\n"
            "seen = sum(mapped[::4096])\n"
            "hold()"
        )
        sampler = sampler_of(one.pid)
        before = only(sampler.sample(), one.pid)
        one.next()
        after = only(sampler.sample(), one.pid)
        grown = (
            after.anon_bytes - before.anon_bytes,
            after.shmem_bytes - before.shmem_bytes,
            after.file_bytes - before.file_bytes,
        )
        for found, allocated in zip(grown, (64 * MIB, 16 * MIB, 24 * MIB), strict=True):
            assert allocated - LAG_BYTES <= found <= allocated + 2 * LAG_BYTES
        truth = smaps_bytes(one.pid, "Rss", "Anonymous")
        assert abs(after.resident_bytes - truth["Rss"]) <= LAG_BYTES
        assert abs(after.anon_bytes - truth["Anonymous"]) <= LAG_BYTES
        assert after.swap_bytes == 0

    def test_who_it_is(self, program: Start, sampler_of: Sampling) -> None:
        one = program(
            "for _ in range(7): threading.Thread(target=signal.pause, daemon=True).start()\nhold()"
        )
        found = only(sampler_of(one.pid).sample(), one.pid)
        assert found.threads == 8
        assert found.parent_pid == os.getpid()
        assert found.command.startswith(f"{sys.executable} -c ")

    def test_a_program_that_becomes_another(self, program: Start, sampler_of: Sampling) -> None:
        one = program("hold()\nos.execvp('sleep', ['sleep', '1000'])")
        sampler = sampler_of(one.pid)
        for _ in range(5):
            assert "execvp" in only(sampler.sample(), one.pid).command
        assert one.process.stdin is not None
        one.process.stdin.write("\n")
        one.process.stdin.flush()
        wait_until(lambda: only(sampler.sample(), one.pid).command == "sleep 1000")

    def test_it_ends(self, program: Start, sampler_of: Sampling) -> None:
        one = program("hold()")
        sampler = sampler_of(one.pid)
        assert pids_of(sampler.sample()) == {one.pid}
        one.process.kill()
        os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
        zombie = sampler.sample()
        assert (zombie.processes, zombie.resident_bytes) == ((), 0)
        one.process.wait()
        assert sampler.sample().processes == ()

    @pytest.mark.parametrize("pid", [0, -1, 1 << 40])
    def test_a_pid_that_cannot_be(self, pid: int, sampler_of: Sampling) -> None:
        sampler = sampler_of(pid)
        assert sampler.sample().processes == ()
        assert not sampler.adopt(pid)
        with pytest.raises(ProcessGoneError):
            command_of(pid)

    def test_a_name_that_steers_terminals(self, sampler_of: Sampling) -> None:
        with subprocess.Popen(["\x1b[31mred\nline", "100"], executable="/bin/sleep") as one:
            sampler = sampler_of(one.pid)
            try:
                wait_until(lambda: "red" in only(sampler.sample(), one.pid).command)
                found = only(sampler.sample(), one.pid)
            finally:
                one.kill()
        assert found.command.isprintable()

    def test_a_kernel_without_the_split(self) -> None:
        found = tree_sampler._parsed(7, "x", b"Name:\tx\nPPid:\t3\nVmRSS:\t   40 kB\nThreads:\t2\n")
        assert found == SampledProcess(7, 3, "x", 40960, 0, 0, 0, 2)

    def test_a_status_longer_than_the_usual_buffer(
        self, monkeypatch: pytest.MonkeyPatch, sampler_of: Sampling
    ) -> None:
        whole = only(sampler_of(os.getpid()).sample(), os.getpid())
        monkeypatch.setattr(tree_sampler, "_STATUS_BYTES", 64)
        cut = only(sampler_of(os.getpid()).sample(), os.getpid())
        assert cut.threads == whole.threads
        assert abs(cut.resident_bytes - whole.resident_bytes) < MIB


def open_files_of(pids: set[int]) -> list[str]:
    """Files of these processes in /proc that this process has open; recorders of other tests may
    run in it, too."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [link for link in found if any(link.startswith(f"/proc/{pid}/") for pid in pids)]


class TestTheTree:
    def test_children_are_found_as_they_come_and_dropped_as_they_go(
        self, program: Start, sampler_of: Sampling
    ) -> None:
        one = program(
            FAMILY + "hold()\nchild(2)\nhold(pids=names(3))\nchild(0)\nhold(pids=names(1))"
        )
        sampler = sampler_of(one.pid)
        assert pids_of(sampler.sample()) == {one.pid}
        first = one.next()["pids"]
        second = []
        try:
            wait_until(lambda: pids_of(sampler.sample()) == {one.pid, *first})
            second = one.next()["pids"]
            wait_until(lambda: pids_of(sampler.sample()) == {one.pid, *first, *second})
            kill(*second)
            wait_until(lambda: pids_of(sampler.sample()) == {one.pid, *first})
        finally:
            kill(*first, *second)

    def test_what_is_there_already_is_seen_at_once(
        self, program: Start, sampler_of: Sampling
    ) -> None:
        one = program(FAMILY + "child(3)\nhold(pids=names(4))")
        try:
            sample = sampler_of(one.pid).sample()
            assert pids_of(sample) == {one.pid, *one.facts["pids"]}
            parents = {process.pid: process.parent_pid for process in sample.processes}
            assert all(parents[pid] in parents for pid in one.facts["pids"])
        finally:
            kill(*one.facts["pids"])

    def test_a_child_that_a_thread_started(self, sampler_of: Sampling) -> None:
        sampler = sampler_of(os.getpid())
        sampler.sample()
        started: list[subprocess.Popen[bytes]] = []
        thread = threading.Thread(target=lambda: started.append(subprocess.Popen(["sleep", "100"])))
        thread.start()
        thread.join()
        try:
            wait_until(lambda: started[0].pid in pids_of(sampler.sample()))
        finally:
            started[0].kill()
            started[0].wait()

    def test_without_children(self, program: Start, sampler_of: Sampling) -> None:
        one = program(FAMILY + "child(0)\nhold(pids=names(1))")
        try:
            sampler = sampler_of(one.pid, children=False)
            assert pids_of(sampler.sample()) == {one.pid}
            assert sampler.adopt(one.facts["pids"][0])
            assert pids_of(sampler.sample()) == {one.pid, one.facts["pids"][0]}
        finally:
            kill(*one.facts["pids"])

    def test_strangers_are_left_alone(self, program: Start, sampler_of: Sampling) -> None:
        one, other = program("hold()"), program("hold()")
        sampler = sampler_of(one.pid)
        sampler.sample()
        third = program("hold()")
        assert pids_of(sampler.sample()) == {one.pid}
        assert other.pid != third.pid

    def test_two_hundred_children(self, program: Start, sampler_of: Sampling) -> None:
        one = program(FAMILY + "[child(0) for _ in range(200)]\nhold(pids=names(200))")
        try:
            sampler = sampler_of(one.pid)
            sample = sampler.sample()
            assert pids_of(sample) == {one.pid, *one.facts["pids"]}
            truth = sum(smaps_bytes(pid, "Rss")["Rss"] for pid in pids_of(sample))
            assert abs(sample.resident_bytes - truth) <= 201 * LAG_BYTES / 4
            kill(*one.facts["pids"][50:])
            wait_until(lambda: pids_of(sampler.sample()) == {one.pid, *one.facts["pids"][:50]})
        finally:
            kill(*one.facts["pids"])

    def test_more_processes_than_files_are_held_open(
        self, program: Start, sampler_of: Sampling, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tree_sampler, "_HELD_FILES", 3)
        one = program(FAMILY + "[child(0) for _ in range(9)]\nhold(pids=names(9))")
        before = len(os.listdir("/proc/self/fd"))
        try:
            sampler = sampler_of(one.pid)
            for _ in range(3):
                assert pids_of(sampler.sample()) == {one.pid, *one.facts["pids"]}
            assert len(os.listdir("/proc/self/fd")) - before == 3
            kill(*one.facts["pids"][::2])
            rest = {one.pid, *one.facts["pids"][1::2]}
            wait_until(lambda: pids_of(sampler.sample()) == rest)
        finally:
            kill(*one.facts["pids"])

    def test_nothing_stays_open(self, program: Start) -> None:
        one = program(FAMILY + "[child(0) for _ in range(5)]\nhold(pids=names(5))")
        family = {one.pid, *one.facts["pids"]}
        try:
            with TreeSampler(one.pid) as sampler:
                sampler.sample()
                assert open_files_of(family)
        finally:
            kill(*one.facts["pids"])
        assert not open_files_of(family)


class TestDetachedProcesses:
    LETTING_GO = (
        "told, telling = os.pipe()\n"
        "middle = os.fork()\n"
        "if not middle:\n"
        "    if not os.fork():\n"
        "        os.setsid()\n"
        "        os.write(telling, f'{os.getpid()}\\n'.encode())\n"
        "        signal.pause()\n"
        "        os._exit(0)\n"
        "    signal.pause()\n"
        "    os._exit(0)\n"
        "pid = int(os.read(told, 100))\n"
    )

    def test_one_that_was_seen_is_followed_on(self, program: Start, sampler_of: Sampling) -> None:
        one = program(self.LETTING_GO + "hold(pids=[middle, pid])")
        middle, detached = one.facts["pids"]
        try:
            sampler = sampler_of(one.pid)
            assert detached in pids_of(sampler.sample())
            kill(middle)
            wait_until(lambda: only(sampler.sample(), detached).parent_pid != middle)
            assert detached in pids_of(sampler.sample())
            one.close()
            assert pids_of(sampler.sample()) == {detached}
        finally:
            kill(middle, detached)

    def test_one_that_was_never_seen_can_be_adopted(
        self, program: Start, sampler_of: Sampling
    ) -> None:
        code = self.LETTING_GO + "os.kill(middle, 9); os.waitpid(middle, 0)\nhold(pid=pid)"
        one = program(code)
        detached = one.facts["pid"]
        try:
            sampler = sampler_of(one.pid)
            assert pids_of(sampler.sample()) == {one.pid}
            assert sampler.adopt(detached)
            assert pids_of(sampler.sample()) == {one.pid, detached}
        finally:
            kill(detached)

    def test_children_that_were_taken_for_strangers(
        self, program: Start, sampler_of: Sampling
    ) -> None:
        family = program(FAMILY + "child(1)\nhold(pids=names(2))")
        lone = program("hold()")
        try:
            sampler = sampler_of(lone.pid)
            sampler.sample()
            assert sampler.adopt(family.pid)
            assert pids_of(sampler.sample()) == {lone.pid, family.pid, *family.facts["pids"]}
        finally:
            kill(*family.facts["pids"])


@pytest.mark.parametrize("held_files", [256, 0], ids=["open file", "no open file"])
def test_a_pid_that_is_used_again(
    held_files: int, sampler_of: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_pid = Path("/proc/sys/kernel/ns_last_pid")
    if not os.access(last_pid, os.W_OK):
        pytest.skip("only root may choose the next pid")
    monkeypatch.setattr(tree_sampler, "_HELD_FILES", held_files)
    first = subprocess.Popen(["sleep", "100"])
    sampler = sampler_of(first.pid)
    assert pids_of(sampler.sample()) == {first.pid}
    first.kill()
    first.wait()
    time.sleep(0.02)  # starts are told apart by ticks of 10 ms
    second = _started_as(first.pid, last_pid)
    try:
        assert sampler.sample().processes == ()
    finally:
        second.kill()
        second.wait()


def _started_as(pid: int, last_pid: Path) -> subprocess.Popen[bytes]:
    for _ in range(200):  # somebody else may be given it first
        last_pid.write_text(str(pid - 1))
        process = subprocess.Popen(["sleep", "100"])
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    pytest.skip(f"pid {pid} was taken by others")
