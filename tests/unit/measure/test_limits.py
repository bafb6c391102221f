"""Limits read from trees of other machines and from this kernel's own groups."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ramledger.errors import ProcessGoneError
from ramledger.measure import limits
from ramledger.measure.limits import FoundLimit

GIB, MIB = 1 << 30, 1 << 20
PID = 4711
NO_LIMIT_V1 = "9223372036854771712"

MEMINFO = "MemTotal: 67108864 kB\nMemFree: 1024 kB\nMemAvailable: 33554432 kB\n"
HOST = FoundLimit(64 * GIB, "host RAM", 32 * GIB, "host")
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max data size             {data:<20} unlimited            bytes     \n"
    "Max address space         {space:<20} unlimited            bytes     \n"
)
V2_MOUNT = "30 23 0:26 {top} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "35 31 0:32 {top} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"


class Machine:
    """A tree with the files of another machine's /proc and /sys/fs/cgroup."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._folder = root
        self.write("proc/meminfo", MEMINFO)
        self.write(f"proc/{PID}/limits", LIMITS.format(data="unlimited", space="unlimited"))
        self.write(f"proc/{PID}/status", "Name:\tx\nVmSize:\t 4096 kB\nVmData:\t 2048 kB\n")
        self.write("proc/self/mountinfo", "")
        self.write(f"proc/{PID}/cgroup", "")

    def write(self, path: str, text: str | int) -> None:
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n" if isinstance(text, int) else text)

    def group(self, path: str, **files: str | int) -> None:
        for name, text in files.items():
            self.write(f"sys/fs/cgroup{path}/{name.replace('__', '.')}", text)

    def limits(self) -> list[tuple[int, str]]:
        return [(f.bytes, f.source) for f in limits.limits(PID, root=self.root)]

    def tightest(self) -> tuple[int, str] | None:
        found = limits.tightest(PID, self.root)
        return (found.bytes, found.source) if found else None


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


class TestVersion2:
    def test_nested(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V2_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", "0::/user.slice/job/step\n")
        machine.group("/user.slice", memory__max=48 * GIB, memory__current=40 * GIB)
        stat = f"anon 1\nfile 5\ninactive_file {2 * GIB}\n"
        machine.group(
            "/user.slice/job",
            memory__max=16 * GIB,
            memory__current=5 * GIB,
            memory__stat=stat,
            memory__swap__max=0,
        )
        machine.group("/user.slice/job/step", memory__max="max\n", memory__current=4 * GIB)
        first, second, third = limits.limits(PID, root=machine.root)
        source = "cgroup memory.max of /user.slice/job (no swap)"
        assert first == FoundLimit(16 * GIB, source, 3 * GIB, "cgroup")
        assert first.headroom_bytes == 13 * GIB
        assert second.source == "cgroup memory.max of /user.slice"
        assert second.headroom_bytes == 8 * GIB
        assert third == HOST

    def test_in_a_container_with_a_namespace_of_its_own(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V2_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", "0::/\n")
        machine.group("", memory__max=2 * GIB, memory__swap__max=GIB)
        assert machine.tightest() == (2 * GIB, "cgroup memory.max of / (and 1.0 GiB of swap)")

    def test_in_a_container_that_sees_the_hosts_names(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V2_MOUNT.format(top="/docker/abc"))
        machine.write(f"proc/{PID}/cgroup", "0::/docker/abc/inner\n")
        machine.group("", memory__max=3 * GIB)
        machine.group("/inner", memory__max="max")
        assert machine.tightest() == (3 * GIB, "cgroup memory.max of /docker/abc")

    @pytest.mark.parametrize("path", ["/../..", "/../other"])
    def test_of_a_process_outside_the_namespace_are_not_made_up(
        self, machine: Machine, path: str
    ) -> None:
        machine.write("proc/self/mountinfo", V2_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", f"0::{path}\n")
        machine.group("", memory__max=2 * GIB)
        assert machine.limits() == [(HOST.bytes, HOST.source)]

    def test_of_a_group_seen_through_a_mount_from_above(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V2_MOUNT.format(top="/.."))
        machine.write(f"proc/{PID}/cgroup", "0::/../other\n")
        machine.group("/other", memory__max=2 * GIB)
        assert machine.tightest() == (2 * GIB, "cgroup memory.max of /../other")

    def test_high_is_told_and_does_not_kill(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V2_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", "0::/a\n")
        machine.group("/a", memory__max=4 * GIB, memory__high=3 * GIB)
        first, *_ = limits.limits(PID, root=machine.root)
        assert (first.bytes, first.effect) == (3 * GIB, "throttle")
        assert machine.tightest() == (4 * GIB, "cgroup memory.max of /a")

    def test_of_a_group_that_was_removed(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V2_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", "0::/a/b (deleted)\n")
        machine.group("/a", memory__max=4 * GIB)
        assert machine.tightest() == (4 * GIB, "cgroup memory.max of /a")

    def test_two_mounts_of_the_same(self, machine: Machine) -> None:
        narrow = V2_MOUNT.format(top="/a").replace("/sys/fs/cgroup", "/mnt/with\\040blank")
        machine.write("proc/self/mountinfo", narrow + V2_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", "0::/a/b\n")
        machine.write("mnt/with blank/b/memory.max", 5 * GIB)
        machine.group("/a/b", memory__max=5 * GIB)
        machine.group("/a", memory__max=4 * GIB)
        assert machine.tightest() == (4 * GIB, "cgroup memory.max of /a")


class TestVersion1:
    def test_nested(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V1_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", "5:cpu,memory:/a/b\n1:name=systemd:/\n")
        machine.group("/memory", memory__limit_in_bytes=NO_LIMIT_V1)
        machine.group("/memory/a", memory__limit_in_bytes=8 * GIB)
        stat = f"inactive_file 7\nhierarchical_memory_limit {8 * GIB}\ntotal_inactive_file {GIB}\n"
        machine.group(
            "/memory/a/b",
            memory__limit_in_bytes=12 * GIB,
            memory__usage_in_bytes=3 * GIB,
            memory__stat=stat,
        )
        assert machine.limits() == [
            (8 * GIB, "cgroup v1 limit of /a"),
            (12 * GIB, "cgroup v1 limit of /a/b"),
            (HOST.bytes, HOST.source),
        ]
        assert limits.limits(PID, root=machine.root)[1].usage_bytes == 2 * GIB

    def test_no_limit(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V1_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", "5:memory:/a\n")
        stat = f"hierarchical_memory_limit {NO_LIMIT_V1}\n"
        machine.group("/memory/a", memory__limit_in_bytes=NO_LIMIT_V1, memory__stat=stat)
        assert machine.limits() == [(HOST.bytes, HOST.source)]

    def test_docker(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V1_MOUNT.format(top="/docker/abc"))
        machine.write(f"proc/{PID}/cgroup", "5:memory:/docker/abc\n")
        stat = f"hierarchical_memory_limit {GIB}\n"
        machine.group("/memory", memory__limit_in_bytes=2 * GIB, memory__stat=stat)
        assert machine.limits()[:2] == [
            (GIB, "cgroup v1 limit of a parent group"),
            (2 * GIB, "cgroup v1 limit of /docker/abc"),
        ]

    def test_hybrid(self, machine: Machine) -> None:
        """Both versions are mounted, and version 1 has the memory controller."""
        unified = V2_MOUNT.format(top="/").replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
        machine.write("proc/self/mountinfo", unified + V1_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", "4:memory:/job\n0::/job\n")
        machine.group("/memory/job", memory__limit_in_bytes=6 * GIB)
        machine.group("/unified/job", cgroup__procs="1\n")
        assert machine.tightest() == (6 * GIB, "cgroup v1 limit of /job")


class TestProcessAndHost:
    def test_address_space_is_named_as_virtual(self, machine: Machine) -> None:
        machine.write(f"proc/{PID}/limits", LIMITS.format(data=128 * GIB, space=8 * GIB))
        found = limits.limits(PID, root=machine.root)
        assert found == (
            FoundLimit(8 * GIB, "RLIMIT_AS (virtual memory)", 4 * MIB, "process", "fail"),
            HOST,
            FoundLimit(128 * GIB, "RLIMIT_DATA (virtual memory)", 2 * MIB, "process", "fail"),
        )
        assert machine.tightest() == (8 * GIB, "RLIMIT_AS (virtual memory)")

    def test_strict_overcommit(self, machine: Machine) -> None:
        machine.write("proc/sys/vm/overcommit_memory", 2)
        commit = f"CommitLimit: {20 * MIB} kB\nCommitted_AS: {5 * MIB} kB\n"
        machine.write("proc/meminfo", MEMINFO + commit)
        first, *_ = limits.limits(PID, root=machine.root)
        assert (first.bytes, first.usage_bytes, first.effect) == (20 * GIB, 5 * GIB, "fail")
        machine.write("proc/sys/vm/overcommit_memory", 0)
        assert limits.limits(PID, root=machine.root) == (HOST,)

    def test_the_largest_single_reservation(self, machine: Machine) -> None:
        memory = f"MemTotal: {8 * MIB} kB\nSwapTotal: {2 * MIB} kB\nCommitLimit: {6 * MIB} kB\n"
        machine.write("proc/meminfo", memory)
        found = {}
        for mode in (0, 1, 2):
            machine.write("proc/sys/vm/overcommit_memory", mode)
            limit = limits.largest_reservation(machine.root)
            found[mode] = None if limit is None else limit[0]
        assert found == {0: 10 * GIB, 1: None, 2: 6 * GIB}

    def test_nothing_known(self, machine: Machine) -> None:
        machine.write("proc/meminfo", "")
        assert limits.limits(PID, root=machine.root) == ()
        assert machine.tightest() is None
        assert limits.available_bytes(machine.root) is None

    def test_no_such_process(self, machine: Machine) -> None:
        with pytest.raises(ProcessGoneError):
            limits.limits(PID + 1, root=machine.root)


class TestOomEvents:
    def test_version_2(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V2_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", "0::/a\n")
        events = "low 0\nhigh 0\nmax 17\noom 3\noom_kill 2\noom_group_kill 0\n"
        machine.group("/a", memory__events=events)
        found = limits.oom_events(PID, machine.root)
        assert found == limits.OomEvents(2, "cgroup memory.events of /a")

    def test_version_1(self, machine: Machine) -> None:
        machine.write("proc/self/mountinfo", V1_MOUNT.format(top="/"))
        machine.write(f"proc/{PID}/cgroup", "4:memory:/a\n")
        control = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"
        machine.group("/memory/a", memory__oom_control=control, memory__failcnt=9)
        found = limits.oom_events(PID, machine.root)
        assert found == limits.OomEvents(5, "cgroup v1 memory.oom_control of /a")

    def test_of_the_host_where_there_is_no_group(self, machine: Machine) -> None:
        assert limits.oom_events(PID, machine.root) is None
        machine.write("proc/vmstat", "nr_free_pages 7\noom_kill 4\n")
        found = limits.oom_events(PID, machine.root)
        assert found is not None
        assert (found.oom_kills, found.source) == (4, "host (/proc/vmstat)")


MEMORY_V1 = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def real_group() -> Iterator[str]:
    """Two real nested groups without processes in them: 96 MiB around 160 MiB."""
    outer = MEMORY_V1 / f"ramledger-test-{os.getpid()}"
    inner = outer / "inner"
    try:
        inner.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"cannot make a version 1 memory group: {error}")
    try:
        (outer / "memory.limit_in_bytes").write_text(str(96 * MIB))
        (inner / "memory.limit_in_bytes").write_text(str(160 * MIB))
        yield f"/{outer.name}/inner"
    finally:
        for group in (inner, outer):
            with suppress(OSError):
                group.rmdir()


def test_real_groups_of_the_kernel(machine: Machine, real_group: str) -> None:
    """The kernel's own files; only the line that puts the process there is written by us.

    No process is moved: tests may run inside a group that somebody relies on.
    """
    (Path(machine.root) / "sys").symlink_to("/sys")
    machine.write("proc/self/mountinfo", Path("/proc/self/mountinfo").read_text())
    machine.write(f"proc/{PID}/cgroup", f"4:memory:{real_group}\n")
    parent = real_group.removesuffix("/inner")
    in_groups = [f for f in limits.limits(PID, root=machine.root) if f.scope == "cgroup"]
    assert [(f.bytes, f.source) for f in in_groups] == [
        (96 * MIB, f"cgroup v1 limit of {parent}"),
        (160 * MIB, f"cgroup v1 limit of {real_group}"),
    ]
    # the kernel charges its records of the inner group to the outer one
    assert all(f.usage_bytes is not None and f.usage_bytes < 4 * MIB for f in in_groups)
    found = limits.oom_events(PID, machine.root)
    assert found == limits.OomEvents(0, f"cgroup v1 memory.oom_control of {real_group}")
