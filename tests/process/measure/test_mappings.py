"""smaps as data: against a plain reading of the same text, and against mappings made on purpose."""

import ctypes
import mmap
import os
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ramledger.errors import MeasureError, NotPermittedError, ProcessGoneError
from ramledger.measure import proc
from ramledger.measure.mappings import (
    Mapping,
    MappingKind,
    parse_smaps,
    read_mappings,
    totals,
)
from tests.support.mapping_lookup import mapping_at

MIB = 1 << 20
PAGE = mmap.PAGESIZE
IDLE = "hold()"


def plain_reading(text: str) -> list[dict[str, Any]]:
    """The same facts, read line by line: the truth that the fast parser is held to."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            start, stop = (int(part, 16) for part in words[0].split("-"))
            found.append(
                {"start": start, "stop": stop, "permissions": words[1], "flags": ""}
                | {"offset": int(words[2], 16), "device": words[3], "inode": int(words[4])}
                | {"path": line.split(maxsplit=5)[5] if len(words) > 5 else ""}
            )
        elif words[0] == "VmFlags:":
            found[-1]["flags"] = words[1:]
        else:
            found[-1][words[0][:-1]] = int(words[1]) * 1024
    return found


def assert_same(mappings: tuple[Mapping, ...], truth: list[dict[str, Any]]) -> None:
    assert len(mappings) == len(truth)
    for mapping, facts in zip(mappings, truth, strict=True):
        for name in ("start", "stop", "permissions", "offset", "device", "inode", "path"):
            assert getattr(mapping, name) == facts[name]
        assert mapping.flags.split() == list(facts["flags"])
        assert mapping.rss_bytes == facts["Rss"]
        assert mapping.pss_bytes == facts["Pss"]
        assert mapping.private_clean_bytes == facts["Private_Clean"]
        assert mapping.private_dirty_bytes == facts["Private_Dirty"]
        assert mapping.uss_bytes == facts["Private_Clean"] + facts["Private_Dirty"]
        assert mapping.shared_bytes == facts["Shared_Clean"] + facts["Shared_Dirty"]
        assert mapping.anonymous_bytes == facts["Anonymous"]
        assert mapping.swap_bytes == facts["Swap"]
        assert mapping.size_bytes == facts["Size"]


def test_every_field_of_every_mapping() -> None:
    text = Path("/proc/self/smaps").read_text()
    assert_same(parse_smaps(text.encode()), plain_reading(text))


def test_a_kernel_whose_fields_vary_from_mapping_to_mapping() -> None:
    lines = Path("/proc/self/smaps").read_text().splitlines(keepends=True)
    varied = []
    for number, line in enumerate(lines):
        if number % 7 == 0 and line.startswith("VmFlags"):
            varied.append("ProtectionKey:         0\n")
        elif not (number % 3 == 0 and line.startswith(("Referenced", "VmFlags"))):
            varied.append(line)
    text = "".join(varied)
    assert_same(parse_smaps(text.encode()), plain_reading(text))


def test_an_old_kernel_prints_less() -> None:
    lines = Path("/proc/self/smaps").read_text().splitlines(keepends=True)
    newer = ("VmFlags", "ShmemPmdMapped", "FilePmdMapped", "Shared_Hugetlb", "Private_Hugetlb")
    kept = [line for line in lines if not line.startswith(newer)]
    mappings = parse_smaps("".join(kept).encode())
    assert [m.rss_bytes for m in mappings] == [
        m.rss_bytes for m in parse_smaps("".join(lines).encode())
    ]
    assert {m.flags for m in mappings} == {""}


def test_no_text_is_no_mapping() -> None:
    assert parse_smaps(b"") == ()


@pytest.fixture(scope="module")
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def mapping_of(buffer: Any) -> Mapping:
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    mapping = mapping_at(read_mappings(os.getpid()), address)
    assert mapping is not None
    assert mapping.start <= address < mapping.stop
    return mapping


@contextmanager
def mapped_file(path: Path | str | bytes, size_bytes: int, **options: Any) -> Iterator[mmap.mmap]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        if path != "/dev/zero":
            os.ftruncate(descriptor, size_bytes)
        with mmap.mmap(descriptor, size_bytes, **options) as mapping:
            yield mapping
    finally:
        os.close(descriptor)


def test_private_anonymous_memory() -> None:
    with mmap.mmap(-1, 2 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory[:PAGE] = bytes(PAGE)
        mapping = mapping_of(memory)
        assert mapping.kind is MappingKind.ANONYMOUS
        assert mapping.anonymous_bytes == mapping.rss_bytes == PAGE


def test_huge_pages() -> None:
    with mmap.mmap(-1, 8 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory[4 * MIB] = 1
        mapping = mapping_of(memory)
        if not mapping.huge_bytes:
            pytest.skip("the kernel has no huge page to give")
        assert mapping.huge_bytes == mapping.rss_bytes == 2 * MIB


@pytest.mark.parametrize("name", ["plain", "two words", "new\nline", "dot.so (deleted)"])
def test_a_file(name: str, tmp_path: Path) -> None:
    with mapped_file(tmp_path / name, 3 * PAGE) as memory:
        memory[0] = 1
        mapping = mapping_of(memory)
        assert mapping.path == str(tmp_path / name).replace("\n", "\\012")
        assert mapping.inode == (tmp_path / name).stat().st_ino
        assert mapping.rss_bytes >= PAGE
        assert mapping.anonymous_bytes == 0
        on_tmpfs = mapping.kind is MappingKind.SHARED_MEMORY
        assert on_tmpfs or mapping.kind is MappingKind.FILE


def test_a_private_copy_of_a_file_page_is_anonymous(tmp_path: Path) -> None:
    with mapped_file(tmp_path / "file", 8 * PAGE, access=mmap.ACCESS_COPY) as memory:
        memory[0] = 1
        assert memory[2 * PAGE] == 0
        mapping = mapping_of(memory)
        assert mapping.anonymous_bytes == PAGE
        assert mapping.rss_bytes > PAGE


def test_a_deleted_file(tmp_path: Path) -> None:
    with mapped_file(tmp_path / "gone", PAGE) as memory:
        (tmp_path / "gone").unlink()
        mapping = mapping_of(memory)
        assert mapping.path == f"{tmp_path}/gone (deleted)"
        assert mapping.file_path == f"{tmp_path}/gone"


@pytest.mark.parametrize("deleted", [False, True])
def test_a_file_on_tmpfs_is_shared_memory(deleted: bool) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm", delete=False) as file:
        path = Path(file.name)
    with mapped_file(path, 4 * PAGE) as memory:
        if deleted:
            path.unlink()
        memory[0] = 1
        mapping = mapping_of(memory)
        path.unlink(missing_ok=True)
    assert mapping.kind is MappingKind.SHARED_MEMORY
    assert mapping.on_tmpfs
    # a tmpfs that is mounted elsewhere is known by its device
    assert mapping._replace(path="/tmp/buffer").kind is MappingKind.SHARED_MEMORY
    assert mapping._replace(path="/tmp/buffer", on_tmpfs=False).kind is MappingKind.FILE


def test_a_memfd() -> None:
    descriptor = os.memfd_create("replay buffer")
    os.ftruncate(descriptor, PAGE)
    with mmap.mmap(descriptor, PAGE) as memory:
        mapping = mapping_of(memory)
    os.close(descriptor)
    assert mapping.path == "/memfd:replay buffer (deleted)"
    assert mapping.kind is MappingKind.SHARED_MEMORY


def test_shared_anonymous_memory() -> None:
    with mmap.mmap(-1, 4 * PAGE) as memory:
        memory[0] = 1
        mapping = mapping_of(memory)
        assert mapping.path == "/dev/zero (deleted)"
        assert mapping.kind is MappingKind.SHARED_MEMORY
        assert totals([mapping]).shmem_bytes == mapping.rss_bytes == PAGE


def test_private_memory_of_dev_zero() -> None:
    with mapped_file("/dev/zero", 4 * PAGE, access=mmap.ACCESS_COPY) as memory:
        memory[0] = 1
        assert mapping_of(memory).kind is MappingKind.ANONYMOUS


def test_a_system_v_segment(libc: ctypes.CDLL) -> None:
    libc.shmat.restype = ctypes.c_void_p
    identifier = libc.shmget(0, 4 * PAGE, 0o600)
    if identifier < 0:
        pytest.skip("no System V shared memory here")
    address = libc.shmat(identifier, None, 0)
    libc.shmctl(identifier, 0, None)
    try:
        mapping = mapping_at(read_mappings(os.getpid()), address)
    finally:
        libc.shmdt(ctypes.c_void_p(address))
    assert mapping is not None
    assert mapping.path.startswith("/SYSV")
    assert mapping.kind is MappingKind.SHARED_MEMORY


@pytest.mark.parametrize(
    ("flags", "name", "kind"),
    [
        (mmap.MAP_PRIVATE, "[anon:replay of actor 3]", MappingKind.ANONYMOUS),
        (mmap.MAP_SHARED, "[anon_shmem:replay of actor 3]", MappingKind.SHARED_MEMORY),
    ],
)
def test_named_anonymous_memory(
    flags: int, name: str, kind: MappingKind, libc: ctypes.CDLL
) -> None:
    with mmap.mmap(-1, PAGE, flags=flags | mmap.MAP_ANONYMOUS) as memory:
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        set_vma, anonymous_name = 0x53564D41, 0
        arguments = (ctypes.c_void_p(address), ctypes.c_size_t(PAGE), b"replay of actor 3")
        if libc.prctl(set_vma, ctypes.c_ulong(anonymous_name), *arguments) != 0:
            pytest.skip("this kernel does not name anonymous memory")
        mapping = mapping_of(memory)
        assert mapping.path == name
        assert mapping.kind is kind


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("[heap]", MappingKind.HEAP),
        ("[stack]", MappingKind.STACK),
        ("[stack:4711]", MappingKind.STACK),
        ("[vdso]", MappingKind.KERNEL),
        ("[vvar_vclock]", MappingKind.KERNEL),
        ("[vsyscall]", MappingKind.KERNEL),
        ("[anon: glibc: malloc arena]", MappingKind.ANONYMOUS),
        ("[anon_shmem:ring]", MappingKind.SHARED_MEMORY),
        ("/dev/nvidia0", MappingKind.DEVICE),
        ("/dev/nvidia-uvm", MappingKind.DEVICE),
        ("/dev/dri/renderD128", MappingKind.DEVICE),
        ("/dev/kfd", MappingKind.DEVICE),
        ("anon_inode:[perf_event]", MappingKind.DEVICE),
        ("/dev/shm/psm_0815", MappingKind.SHARED_MEMORY),
        ("/SYSV00000000 (deleted)", MappingKind.SHARED_MEMORY),
        ("/home/me/devices/replay.npy", MappingKind.FILE),
    ],
)
def test_kinds_by_path(path: str, kind: MappingKind) -> None:
    assert Mapping(PAGE, 2 * PAGE, "rw-p", 0, 1, path, rss_bytes=0).kind is kind


def test_the_mappings_every_process_has() -> None:
    kinds = {m.kind for m in read_mappings(os.getpid())}
    assert {MappingKind.HEAP, MappingKind.STACK, MappingKind.FILE, MappingKind.KERNEL} <= kinds


def test_a_path_cannot_steer_the_terminal(tmp_path: Path) -> None:
    with mapped_file(os.fsencode(tmp_path / "\x1b[31mred") + b"\xff", PAGE) as memory:
        path = mapping_of(memory).path
    assert path.isprintable()
    assert path.endswith(r"\x1b[31mred\xff")


SHARED_AND_PRIVATE = f"""
shared = mmap.mmap(-1, {8 * MIB}); shared[:{3 * MIB}] = bytes({3 * MIB})
private = mmap.mmap(-1, {8 * MIB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
private[:{5 * MIB}] = bytes({5 * MIB})
hold()
"""


def test_the_sums(child: Callable[..., Any]) -> None:
    program = child(SHARED_AND_PRIVATE)
    truth = plain_reading(Path(f"/proc/{program.pid}/smaps").read_text())
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{program.pid}/status").read_text().splitlines()
    )
    found = totals(read_mappings(program.pid))
    assert found.rss_bytes == sum(facts["Rss"] for facts in truth)
    assert found.anon_bytes == sum(facts["Anonymous"] for facts in truth) > 5 * MIB
    assert found.shmem_bytes == 3 * MIB
    assert found.anon_bytes + found.file_bytes + found.shmem_bytes == found.rss_bytes
    assert found.uss_bytes <= found.pss_bytes <= found.rss_bytes
    assert found.size_bytes == int(status["VmSize"].split()[0]) * 1024


def test_a_container_without_smaps(
    child: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = child(SHARED_AND_PRIVATE)
    # what is shared with others, and so PSS, changes as those come and go
    full = replace(totals(read_mappings(program.pid)), pss_bytes=0, uss_bytes=0)
    for name in ("smaps", "stat", "status", "mountinfo"):
        copied = tmp_path / str(program.pid) / name
        copied.parent.mkdir(exist_ok=True)
        copied.write_bytes(Path(f"/proc/{program.pid}/{name}").read_bytes())
    (tmp_path / "self").symlink_to(str(program.pid))
    monkeypatch.setattr(proc, "PROC", str(tmp_path))
    assert replace(totals(read_mappings(program.pid)), pss_bytes=0, uss_bytes=0) == full
    (tmp_path / str(program.pid) / "smaps").unlink()
    with pytest.raises(MeasureError, match="this kernel has no"):
        read_mappings(program.pid)


def test_a_process_of_another_user(
    child: Callable[..., Any], as_nobody: Callable[..., Any]
) -> None:
    program = child(SHARED_AND_PRIVATE)
    with pytest.raises(NotPermittedError):
        as_nobody(lambda: read_mappings(program.pid))


def test_processes_without_memory(child: Callable[..., Any]) -> None:
    program = child(IDLE)
    program.end(reap=False)
    pids = [program.pid]
    if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n":
        pids.append(2)
    for pid in pids:
        assert read_mappings(pid) == ()


def test_a_process_that_is_gone(child: Callable[..., Any]) -> None:
    program = child(IDLE)
    program.end()
    with pytest.raises(ProcessGoneError):
        read_mappings(program.pid)


MANY_MAPPINGS = f"""
memory = mmap.mmap(-1, {2 * 2000 * PAGE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(bytes(len(memory)))
protect = ctypes.CDLL(None).mprotect
for page in range(0, {2 * 2000}, 2):
    protect(ctypes.c_void_p(address(memory) + page * {PAGE}), {PAGE}, 1)
hold(address=address(memory))
"""


def test_two_thousand_mappings(child: Callable[..., Any]) -> None:
    program = child(MANY_MAPPINGS)
    start = program.facts["address"]
    made = [m for m in read_mappings(program.pid) if start <= m.start < start + 2 * 2000 * PAGE]
    assert len(made) >= 2 * 2000 - 1
    assert sum(m.rss_bytes for m in made if m.stop <= start + 2 * 2000 * PAGE) >= 3999 * PAGE


def test_a_process_that_ends_while_it_is_read(child: Callable[..., Any]) -> None:
    for moment in range(6):
        program = child(MANY_MAPPINGS)
        began = time.monotonic()
        count = len(read_mappings(program.pid))
        took = time.monotonic() - began
        killer = threading.Timer(0.7 * moment * took, os.kill, (program.pid, signal.SIGKILL))
        killer.start()
        with pytest.raises(ProcessGoneError):
            for _ in range(1000):
                mappings = read_mappings(program.pid)
                if not mappings:  # a zombie by now
                    raise ProcessGoneError("ended before the reading began")
                assert len(mappings) == count
        killer.join()


def test_a_process_with_a_limit_on_its_address_space(child: Callable[..., Any]) -> None:
    code = f"""
import resource
from ramledger.measure.mappings import read_mappings, totals
from tests.support.mapping_lookup import mapping_at
limit = totals(read_mappings(os.getpid())).size_bytes + {8 * MIB}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
found = totals(read_mappings(os.getpid()))
hold(size=found.size_bytes, limit=limit)
"""
    program = child(code)
    assert program.facts["size"] <= program.facts["limit"]
    assert resource.prlimit(program.pid, resource.RLIMIT_AS)[0] == program.facts["limit"]
    assert totals(read_mappings(program.pid)).rss_bytes > MIB
