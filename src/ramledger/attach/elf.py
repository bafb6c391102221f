"""Symbols of a live process, read from its memory.

From memory, not from files: correct also if a library's file was replaced or deleted, and in a
container.
Only 64-bit little-endian ELF with a GNU hash table, which Linux linkers have written since 2006.
"""

import errno
import os
import struct
from dataclasses import dataclass, replace

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 0, 5, 6, 0x6FFFFEF5
_STT_GNU_IFUNC = 10
_PAGE_BYTES = 4096
_LARGEST_DYNAMIC_BYTES = 64 * 1024
_LONGEST_CHAIN = 100_000


class Memory:
    """The address space of another process; needs the right to trace it."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes; OSError where nothing is mapped."""
        data = os.pread(self._descriptor, size, address)
        if len(data) != size:
            raise OSError(errno.EIO, f"only {len(data)} of {size} bytes at {address:#x}")
        return data


@dataclass(frozen=True, slots=True)
class Module:
    """A program or library as mapped: its file, and its first to last address."""

    path: str
    start: int
    end: int
    executable: bool
    first_line: str  # of /proc/PID/maps

    @property
    def name(self) -> str:
        return os.path.basename(self.path.removesuffix(" (deleted)"))

    def holds(self, address: int) -> bool:
        return self.start <= address < self.end


@dataclass(frozen=True, slots=True)
class _Mapping:
    start: int
    end: int
    permissions: str
    offset: int
    file: str  # device and inode
    path: str
    line: str

    @classmethod
    def from_line(cls, line: str) -> "_Mapping":
        addresses, permissions, offset, device, inode, *path = line.rstrip("\n").split(None, 5)
        start, end = (int(address, 16) for address in addresses.split("-"))
        file = "" if inode == "0" else f"{device} {inode}"
        return cls(start, end, permissions, int(offset, 16), file, path[0] if path else "", line)


def read_maps(pid: int) -> str:
    """The text of /proc/PID/maps, one line a mapping."""
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape", newline="\n") as f:
        return f.read()


def read_modules(pid: int) -> list[Module]:
    """Every file mapped from its beginning, by address; libraries and the program among them."""
    return group_modules([_Mapping.from_line(line) for line in read_maps(pid).split("\n")[:-1]])


def group_modules(mappings: list[_Mapping]) -> list[Module]:
    """Join the neighboring mappings of one file, beginning with its first page."""
    modules: list[Module] = []
    current_file = ""
    for mapping in mappings:
        if not mapping.file:
            continue
        executable = "x" in mapping.permissions
        if mapping.offset == 0 and (not modules or mapping.file != current_file):
            modules.append(
                Module(mapping.path, mapping.start, mapping.end, executable, mapping.line)
            )
            current_file = mapping.file
        elif modules and mapping.file == current_file:
            last = modules[-1]
            modules[-1] = replace(last, end=mapping.end, executable=last.executable or executable)
        else:
            current_file = ""
    return modules


class Symbols:
    """The exported names of one module: `Symbols(memory, module).address("malloc")`."""

    def __init__(self, memory: Memory, module: Module) -> None:
        self._memory = memory
        self._module = module
        header = memory.read(module.start, 64)
        if header[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"not a 64-bit ELF file: {module.path}")
        self.machine: int = struct.unpack_from("<H", header, 18)[0]
        dynamic, self._bias = self._program_headers(header)
        tables = self._dynamic_section(dynamic)
        self._names, self._symbols = tables[_DT_STRTAB], tables[_DT_SYMTAB]
        self._hash = tables[_DT_GNU_HASH]
        self._buckets, self._first, self._bloom_words, self._bloom_shift = struct.unpack(
            "<4I", memory.read(self._hash, 16)
        )

    def address(self, name: str) -> int | None:
        """Where the name is defined, or None if this module does not define it."""
        hashed = _gnu_hash(name)
        if not self._buckets or not self._may_hold(hashed):
            return None
        buckets_at = self._hash + 16 + 8 * self._bloom_words
        chains_at = buckets_at + 4 * self._buckets
        index = self._u32(buckets_at + 4 * (hashed % self._buckets))
        if index < self._first:
            return None
        wanted = name.encode() + b"\0"
        for position in range(index, index + _LONGEST_CHAIN):
            chained = self._u32(chains_at + 4 * (position - self._first))
            if chained | 1 == hashed | 1:
                found = self._defined_at(position, wanted)
                if found is not None:
                    return found
            if chained & 1:
                return None
        return None

    def _program_headers(self, header: bytes) -> tuple[bytes, int]:
        table_at = struct.unpack_from("<Q", header, 32)[0]
        entry_bytes, entries = struct.unpack_from("<HH", header, 54)
        table = self._memory.read(self._module.start + table_at, entry_bytes * entries)
        dynamic, size, bias = 0, 0, None
        for at in range(0, len(table), entry_bytes):
            kind, _, offset, address = struct.unpack_from("<IIQQ", table, at)
            if kind == _PT_LOAD and bias is None:
                bias = self._module.start - (address - offset) // _PAGE_BYTES * _PAGE_BYTES
            elif kind == _PT_DYNAMIC:
                dynamic, size = address, struct.unpack_from("<Q", table, at + 40)[0]
        if bias is None or not 0 < size <= _LARGEST_DYNAMIC_BYTES:
            raise ValueError(f"exports nothing: {self._module.path}")
        return self._memory.read(dynamic + bias, size // 16 * 16), bias

    def _dynamic_section(self, section: bytes) -> dict[int, int]:
        tables: dict[int, int] = {}
        for tag, value in struct.iter_unpack("<QQ", section):
            if tag == _DT_NULL:
                break
            if tag in (_DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH):
                # glibc adds the load address to these in place, other loaders leave them
                tables[tag] = value if value >= self._module.start else value + self._bias
        if len(tables) < 3:
            raise ValueError(f"has no GNU hash table: {self._module.path}")
        return tables

    def _may_hold(self, hashed: int) -> bool:
        word_at = self._hash + 16 + 8 * ((hashed // 64) % self._bloom_words)
        word = struct.unpack("<Q", self._memory.read(word_at, 8))[0]
        wanted = 1 << (hashed % 64) | 1 << ((hashed >> self._bloom_shift) % 64)
        return bool(word & wanted == wanted)

    def _defined_at(self, position: int, wanted: bytes) -> int | None:
        symbol = self._memory.read(self._symbols + 24 * position, 24)
        name_at, info, _, section, value = struct.unpack("<IBBHQ", symbol[:16])
        if section == 0 or info & 0xF == _STT_GNU_IFUNC:
            return None
        if self._memory.read(self._names + name_at, len(wanted)) != wanted:
            return None
        return int(value) + self._bias

    def _u32(self, address: int) -> int:
        return int(struct.unpack("<I", self._memory.read(address, 4))[0])


def _gnu_hash(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value
