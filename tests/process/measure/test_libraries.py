"""Libraries by package: against the loader's own list of what it loaded, segment by segment."""

import ctypes
import mmap
import os
import shutil
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ramledger.measure.libraries import is_shared_object, libraries, package_of
from ramledger.measure.mappings import Mapping, read_mappings

PAGE = mmap.PAGESIZE
SITE = "/venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("path", "package"),
    [
        (f"{SITE}/torch/lib/libtorch_cpu.so", "torch"),
        (f"{SITE}/torch/lib/libgomp-24e2ab19.so.1.0.0", "torch"),
        (f"{SITE}/torch/lib/libtorch_cuda.so", "torch"),
        (f"{SITE}/torch/lib/libcudart-0d3f2e6b.so.12", "cuda"),
        (f"{SITE}/torch/lib/libamdhip64.so", "rocm"),
        (f"{SITE}/torch/lib/librocblas.so", "rocm"),
        (f"{SITE}/nvidia/cublas/lib/libcublasLt.so.12", "cuda"),
        (f"{SITE}/nvidia/nvtx/lib/libnvToolsExt.so.1", "cuda"),
        (f"{SITE}/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so", "numpy"),
        (f"{SITE}/numpy.libs/libscipy_openblas64_-ff651d7f.so", "numpy"),
        (f"{SITE}/opencv_python.libs/libavcodec-402e4b05.so.59.37.100", "cv2"),
        (f"{SITE}/opencv_python_headless.libs/libvpx-c887ea55.so.7.1.0", "cv2"),
        (f"{SITE}/scikit_learn.libs/libgomp-a34b3233.so.1.0.0", "sklearn"),
        (f"{SITE}/pillow.libs/libjpeg-45e70d75.so.62.4.0", "PIL"),
        (f"{SITE}/pygame.libs/libSDL2-2-0c4fd8b8.0.so.0.2600.0", "pygame"),
        (f"{SITE}/_cffi_backend.cpython-311-x86_64-linux-gnu.so", "cffi"),
        (f"{SITE}/psutil/_psutil_linux.abi3.so", "psutil"),
        (f"{SITE}/oldstyle-1.2-py3.11-linux-x86_64.egg/oldstyle/_core.so", "oldstyle"),
        ("/usr/lib/python3/dist-packages/numpy/core/_simd.cpython-311.so", "numpy"),
        (f"{SITE}/torch/lib/libtorch_cpu.so (deleted)", "torch"),
        ("/usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", "python"),
        ("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0", "python"),
        ("/usr/bin/python3.11", "python"),
        ("/opt/pypy/bin/pypy3", "python"),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01", "cuda"),
        ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.183.01", "cuda"),
        ("/usr/local/cuda-12.4/targets/x86_64-linux/lib/libaccinj64.so.12", "cuda"),
        ("/opt/rocm-6.1.0/lib/libhsa-runtime64.so.1", "rocm"),
        ("/usr/lib/x86_64-linux-gnu/libcurl.so.4.8.0", "curl"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "system"),
        ("/lib/x86_64-linux-gnu/libc-2.31.so", "system"),
        ("/lib/x86_64-linux-gnu/ld-2.31.so", "system"),
        ("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "system"),
        ("/lib/ld-musl-x86_64.so.1", "system"),
        ("/usr/lib/x86_64-linux-gnu/libm.so.6", "system"),
        ("/usr/lib/x86_64-linux-gnu/libpthread.so.0", "system"),
        ("/usr/lib/x86_64-linux-gnu/libnss_files.so.2", "system"),
        ("/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30", "system"),
        ("/usr/lib/x86_64-linux-gnu/libgcc_s.so.1", "system"),
        ("/usr/lib/x86_64-linux-gnu/libSDL2-2.0.so.0.2600.5", "SDL2"),
        ("/usr/lib/x86_64-linux-gnu/libz.so.1.2.13", "zlib"),
        ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "openssl"),
        ("/usr/lib/x86_64-linux-gnu/libLLVM-15.so.1", "LLVM"),
        ("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4.5.10", "tcmalloc_minimal"),
        ("/home/me/game/build/simulator.cpython-311-x86_64-linux-gnu.so", "simulator"),
        ("/home/me/game/libphysics.so", "physics"),
        ("/usr/bin/sleep", "sleep"),
        ("/home/me/ramledger/src/ramledger/interpreter/heap_walk.abi3.so", "ramledger"),
        ("/strange/lib.so", "lib.so"),
    ],
)
def test_the_package_of_a_path(path: str, package: str) -> None:
    assert package_of(path) == package


@pytest.mark.parametrize(
    ("path", "is_library"),
    [
        ("/lib/libc.so.6", True),
        ("/lib/x.cpython-311-x86_64-linux-gnu.so", True),
        ("/lib/libstdc++.so.6.0.30 (deleted)", True),
        ("/lib/libc.so.6.backup.so", True),
        ("/data/replay.npy", False),
        ("/data/notes.solved", False),
        ("/data/x.so.bak", False),
        ("/data.so/replay.npy", False),
    ],
)
def test_names_of_shared_objects(path: str, is_library: bool) -> None:
    assert is_shared_object(path) is is_library


# dl_iterate_phdr(3): every library's load address and segments, from the loader itself
LOADED = """
class Phdr(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("flags", ctypes.c_uint32)] + [
        (name, ctypes.c_uint64) for name in ("offset", "vaddr", "paddr", "filesz", "memsz", "align")
    ]
class Info(ctypes.Structure):
    _fields_ = [("addr", ctypes.c_uint64), ("name", ctypes.c_char_p)] + [
        ("phdr", ctypes.POINTER(Phdr)), ("phnum", ctypes.c_uint16)
    ]
segments = []
def visit(info, size, data):
    info = info.contents
    for n in range(info.phnum):
        p = info.phdr[n]
        if p.type == 1 and info.name != b"linux-vdso.so.1":
            at = info.addr + p.vaddr
            segments.append([at // 4096 * 4096, -(-(at + p.memsz) // 4096) * 4096])
    return 0
callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p
)(visit)
ctypes.CDLL(None).dl_iterate_phdr(callback, None)
hold(segments=segments)
"""


@pytest.fixture(params=["", "import numpy, torch", "import numpy.random, gymnasium, cv2"])
def loaded(request: pytest.FixtureRequest, child: Callable[..., Any]) -> Any:
    for module in request.param.removeprefix("import ").split(", "):
        if module:
            pytest.importorskip(module.partition(".")[0])
    return child(request.param + LOADED)


def inside(segments: list[tuple[int, int]], mapping: Mapping) -> int:
    """How many bytes of the mapping lie in segments."""
    return sum(
        max(0, min(stop, mapping.stop) - max(start, mapping.start)) for start, stop in segments
    )


def test_what_the_loader_loaded_is_what_we_find(loaded: Any) -> None:
    mappings = read_mappings(loaded.pid)
    found = libraries(mappings)
    segments = [(start, stop) for start, stop in loaded.facts["segments"]]
    for mapping in mappings:
        covered = inside(segments, mapping)
        if mapping.start in found and not mapping.path:
            assert covered == mapping.size_bytes, "memory behind a library that is not its .bss"
        elif mapping.path.startswith("/") and covered:
            assert mapping.start in found
        elif mapping.start not in found and covered:
            assert covered < mapping.size_bytes, "a .bss that was not found"
    assert {"python", "system"} <= set(found.values())


def test_a_buffer_right_behind_a_library_is_not_the_library() -> None:
    """The kernel likes to put both side by side, and merges the buffer with the .bss."""
    mappings = list(read_mappings(os.getpid()))
    found = libraries(mappings)
    at, bss = next((at, m) for at, m in enumerate(mappings) if m.start in found and not m.path)
    grown = bss._replace(stop=bss.stop + (64 << 20), rss_bytes=64 << 20)
    changed = [*mappings[:at], grown, *(m for m in mappings[at + 1 :] if m.start >= grown.stop)]
    assert grown.start not in libraries(changed)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    source = Path(sysconfig.get_config_var("DESTSHARED"))
    some = next(iter(sorted(source.glob("_heapq*.so"))), None)
    if some is None:
        pytest.skip("this Python has no extension modules of its own")
    return Path(shutil.copy(some, tmp_path / "libphysics.so.2"))


def segments_of(path: str) -> Iterator[Mapping]:
    return (m for m in read_mappings(os.getpid()) if m.path == path)


def test_a_library_whose_file_was_deleted(library: Path) -> None:
    ctypes.PyDLL(str(library))
    library.unlink()
    mappings = read_mappings(os.getpid())
    found = libraries(mappings)
    deleted = [m for m in mappings if m.path == f"{library} (deleted)"]
    assert len(deleted) >= 3
    assert {found[m.start] for m in deleted} == {"physics"}


def test_a_library_on_tmpfs(library: Path) -> None:
    """Code stays code, wherever it was copied to."""
    segments = [m._replace(on_tmpfs=True, path="/run/venv/libphysics.so") for m in _loaded(library)]
    assert segments
    assert set(libraries(segments).values()) == {"physics"}


def _loaded(library: Path) -> list[Mapping]:
    ctypes.PyDLL(str(library))
    return list(segments_of(str(library)))


def test_data_files_are_no_libraries(tmp_path: Path) -> None:
    path = tmp_path / "replay.npy"
    path.write_bytes(bytes(4 * PAGE))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        assert memory[0] == 0
        (mapping,) = segments_of(str(path))
        found = libraries(read_mappings(os.getpid()))
    assert mapping.start not in found
    assert not any("locale" in package for package in found.values())


def test_generated_code_in_a_memfd_is_no_library() -> None:
    descriptor = os.memfd_create("jit.so")
    os.ftruncate(descriptor, PAGE)
    with mmap.mmap(descriptor, PAGE, prot=mmap.PROT_READ | mmap.PROT_EXEC):
        (mapping,) = segments_of("/memfd:jit.so (deleted)")
        found = libraries(read_mappings(os.getpid()))
    os.close(descriptor)
    assert mapping.permissions[2] == "x"
    assert mapping.start not in found


def test_an_elf_file_that_is_something_else_by_now(library: Path) -> None:
    """Replaced in place by an update: then nothing is said of its .bss, and nothing fails."""
    before = [m for m in _loaded(library) if m.permissions.startswith("rw")]
    assert before
    behind = Mapping(before[-1].stop, before[-1].stop + PAGE, "rw-p", 0, 0, "", rss_bytes=PAGE)
    replaced = Path(f"{library}.new.so")
    for content in (b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), b"no ELF at all" * 100):
        replaced.write_bytes(content)
        segments = [m._replace(path=str(replaced), inode=len(content)) for m in before]
        assert libraries([*segments, behind]).keys() == {m.start for m in segments}
        replaced.unlink()


def test_the_executable_of_a_program_that_is_not_python() -> None:
    import subprocess

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.read(1)
        found = libraries(read_mappings(process.pid))
        process.kill()
    name = os.path.basename(os.path.realpath(shutil.which("cat") or ""))
    assert set(found.values()) == {name, "system"}
