"""Which mappings are shared libraries or executables, and which package each belongs to."""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ramledger.descriptors import open_kernel_file
from ramledger.measure.mappings import DELETED, Mapping, MappingKind

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PT_LOAD = 1

_CUDA = (
    *("libcuda", "libcublas", "libcudnn", "libcufft", "libcufile", "libcupti", "libcurand"),
    *("libcusolver", "libcusparse", "libnccl", "libnpp", "libnvidia", "libnvrtc", "libnvJit"),
    *("libnvjitlink", "libnvToolsExt", "libnvshmem", "libnvperf"),
)
_ROCM = (
    *("libamdhip64", "libamd_comgr", "libhip", "libhsa", "libMIOpen", "librccl", "libroc"),
    "libdrm_amdgpu",
)
_SYSTEM = frozenset(
    [
        *("c", "m", "pthread", "dl", "rt", "util", "resolv", "anl", "mvec", "nsl", "crypt", "ld"),
        *("stdc++", "gcc_s", "thread_db", "BrokenLocale", "c_malloc_debug"),
    ]
)
# names of distributions (auditwheel's `NAME.libs`) and of bare modules that differ from the package
_ALIASES = {
    "_cffi_backend": "cffi",
    "_yaml": "yaml",
    "heap_walk": "ramledger",
    "nvidia": "cuda",
    "opencv_python": "cv2",
    "opencv_python_headless": "cv2",
    "pillow": "PIL",
    "scikit_image": "skimage",
    "scikit_learn": "sklearn",
    "_rocm_sdk_core": "rocm",
    "_rocm_sdk_libraries": "rocm",
    "z": "zlib",
    "ssl": "openssl",
    "crypto": "openssl",
}


def package_of(path: str) -> str:
    """The package a library or executable belongs to: .../torch/lib/libtorch_cpu.so -> torch."""
    path = path.removesuffix(DELETED)
    directory, _, name = path.rpartition("/")
    vendor = _vendor(directory, name)
    if vendor:
        return vendor
    for marker in ("/site-packages/", "/dist-packages/"):
        if marker in path:
            return _distribution(path.rpartition(marker)[2])
    if directory.endswith("/lib-dynload") or name.startswith(("libpython", "python", "pypy")):
        return "python"
    stem = _stem(name)
    if stem in _SYSTEM or stem.startswith(("nss_", "ld-")):
        return "system"
    return _ALIASES.get(stem, stem)


def libraries(mappings: Sequence[Mapping]) -> dict[int, str]:
    """Package by Mapping.start, for all segments of libraries and executables, .bss included.

    Data files (a memmap, a font, the locale archive) are left out: they are not executable.
    """
    paths = _library_paths(mappings)
    packages = {m.start: paths[m.path] for m in mappings if m.path in paths}
    for bss in _bss_ranges(mappings, paths):
        if bss.covers:
            packages[bss.start] = bss.package
    return packages


@dataclass(frozen=True, slots=True)
class _Bss:
    """Zero-initialized variables of a library: anonymous memory, so smaps does not name it."""

    start: int
    stop: int
    package: str
    covers: bool


@dataclass(frozen=True, slots=True)
class _Segment:
    """A PT_LOAD entry of an ELF file."""

    offset: int
    file_bytes: int
    memory_bytes: int

    def holds(self, offset: int) -> bool:
        """Whether a mapping of the file from this offset on begins in the segment."""
        first = self.offset // _PAGE_BYTES * _PAGE_BYTES
        return first <= offset < self.offset + self.file_bytes


def _library_paths(mappings: Sequence[Mapping]) -> dict[str, str]:
    executable = {m.path for m in mappings if m.permissions[2] == "x"}
    paths = {m.path: m for m in mappings if m.path.startswith("/")}
    return {
        path: package_of(path)
        for path, mapping in paths.items()
        if _may_hold_code(mapping) and (path in executable or is_shared_object(path))
    }


def _may_hold_code(mapping: Mapping) -> bool:
    """A file, on tmpfs too; not a memfd, which JIT compilers use for generated code."""
    return mapping.kind is MappingKind.FILE or (
        mapping.on_tmpfs and not mapping.path.startswith(("/memfd:", "/SYSV", "/dev/"))
    )


def is_shared_object(path: str) -> bool:
    """Whether the name is that of a library: x.so, x.so.6, x.so.6.0.30, deleted or not."""
    name = path.removesuffix(DELETED).rpartition("/")[2]
    _, dot, version = name.rpartition(".so")
    return bool(dot) and not version.strip(".0123456789")


def _bss_ranges(mappings: Sequence[Mapping], paths: dict[str, str]) -> Iterator[_Bss]:
    # Behind a library's last page there may be a pymalloc arena or an array, and the kernel merges
    # it with a real .bss: only the ELF header says how long the .bss is.
    for segment, behind in pairwise(mappings):
        if segment.path in paths and _may_be_bss(segment, behind):
            stop = min(_memory_end(segment), behind.stop)
            if stop > behind.start:
                package = paths[segment.path]
                yield _Bss(behind.start, stop, package, covers=stop == behind.stop)


def _may_be_bss(segment: Mapping, behind: Mapping) -> bool:
    return (
        behind.start == segment.stop
        and behind.kind is MappingKind.ANONYMOUS
        and behind.inode == 0
        and behind.permissions[1] == "w"
    )


def _memory_end(mapping: Mapping) -> int:
    """Where the segment behind a file mapping ends in memory, its .bss included; 0 if unknown."""
    behind = [s for s in _segments(mapping.file_path, mapping.inode) if s.holds(mapping.offset)]
    if not behind:
        return 0
    # two segments may share a page of the file; the mapping is of the one that begins there
    segment = max(behind, key=lambda s: s.offset)
    begins = mapping.start + segment.offset - mapping.offset
    return -(-(begins + segment.memory_bytes) // _PAGE_BYTES) * _PAGE_BYTES


@lru_cache(maxsize=1024)
def _segments(path: str, inode: int) -> tuple[_Segment, ...]:
    """The writable segments of an ELF file; none if it is not ELF or unreadable."""
    try:
        # as kernel files are: the program gets no number between the opening and its moving away
        with open_kernel_file(path, os.O_RDONLY | os.O_NONBLOCK) as file:
            header = os.pread(file.fileno(), 64, 0)
            return tuple(_program_headers(file.fileno(), header))
    except (OSError, ValueError, struct.error):
        return ()


def _program_headers(fd: int, header: bytes) -> Iterator[_Segment]:
    if len(header) < 64 or header[:4] != b"\x7fELF":
        return
    order = "<" if header[5] == 1 else ">"
    if header[4] == 2:
        (table,) = struct.unpack_from(order + "Q", header, 32)
        size, count = struct.unpack_from(order + "HH", header, 54)
        layout, fields = order + "IIQQQQQQ", (2, 5, 6, 1)
    else:
        (table,) = struct.unpack_from(order + "I", header, 28)
        size, count = struct.unpack_from(order + "HH", header, 42)
        layout, fields = order + "IIIIIIII", (1, 4, 5, 6)
    data = os.pread(fd, size * count, table)
    for at in range(0, len(data), size):
        entry = struct.unpack_from(layout, data, at)
        offset, file_bytes, memory_bytes, flags = (entry[field] for field in fields)
        if entry[0] == _PT_LOAD and flags & 2:
            yield _Segment(offset, file_bytes, memory_bytes)


def _vendor(directory: str, name: str) -> str:
    """Libraries of GPU makers are recognized wherever a wheel or the system keeps them."""
    if name.startswith(_CUDA) or "/nvidia/" in directory + "/" or "/usr/local/cuda" in directory:
        return "cuda"
    if name.startswith(_ROCM) or directory.startswith("/opt/rocm"):
        return "rocm"
    return ""


def _distribution(below: str) -> str:
    """The package by the path below site-packages: numpy.libs/x.so, torch/lib/x.so, x.abi3.so."""
    top, slash, _ = below.partition("/")
    if not slash:
        top = _stem(top)
    elif top.endswith(".egg"):
        top = top.partition("-")[0]
    top = top.removesuffix(".libs")
    return _ALIASES.get(top, top)


def _stem(name: str) -> str:
    """The name without prefix, version, hash and ABI tag: libSDL2-2.0.so.0 -> SDL2."""
    stem = name.partition(".so")[0].removeprefix("lib")
    for tag in (".cpython-", ".abi3", ".pypy"):
        stem = stem.partition(tag)[0]
    if not stem.startswith("ld-"):
        while "-" in stem and _is_version_or_hash(stem.rpartition("-")[2]):
            stem = stem.rpartition("-")[0]
        head, _, tail = stem.partition(".")
        stem = head if tail[:1].isdigit() else stem
    return stem or name or "unknown"


def _is_version_or_hash(text: str) -> bool:
    is_hash = len(text) == 8 and not text.strip("0123456789abcdef")
    return is_hash or not text.strip(".0123456789")
