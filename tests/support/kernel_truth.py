"""What the kernel says of a process, read as plainly as can be: the truth the ledger is held to.

Nothing here comes from the package under test.
"""

import os
import struct
import time
from array import array
from pathlib import Path
from typing import Any

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
Mapping = dict[str, Any]

_PRESENT, _EXCLUSIVE = 1 << 63, 1 << 56


def smaps(pid: int) -> list[Mapping]:
    """Every mapping with its fields in bytes, and `start`, `stop`, `permissions`, `path`."""
    found: list[Mapping] = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            start, stop = (int(part, 16) for part in words[0].split("-"))
            path = " ".join(words[5:])
            found.append({"start": start, "stop": stop, "permissions": words[1], "path": path})
        elif words[-1] == "kB":
            found[-1][words[0].rstrip(":")] = int(words[1]) * 1024
    return found


def total(mappings: list[Mapping], field: str = "Rss") -> int:
    """The sum of one field."""
    return sum(mapping[field] for mapping in mappings)


def resident_bytes(pid: int, start: int, stop: int, *, anonymous: bool = True) -> int:
    """Resident bytes of an address range by /proc/PID/pagemap.

    The zero page behind memory that was only read is present too, but is nobody's alone; so in
    anonymous memory of a process that has not forked, what counts is present and exclusive.
    """
    wanted = _PRESENT | _EXCLUSIVE if anonymous else _PRESENT
    first, last = start // PAGE_BYTES, -(-stop // PAGE_BYTES)
    entries = array("Q")
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as file:
        entries.frombytes(os.pread(file.fileno(), 8 * (last - first), 8 * first))
    pages = [page for page, entry in enumerate(entries, first) if entry & wanted == wanted]
    return sum(min(stop, (page + 1) * PAGE_BYTES) - max(start, page * PAGE_BYTES) for page in pages)


def stack_mappings(pid: int, mappings: list[Mapping]) -> list[Mapping]:
    """The mappings in which the stack pointers of the threads lie, each once."""
    found: dict[int, Mapping] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        while (words := (task / "syscall").read_text().split()) == ["running"]:
            time.sleep(0.01)
        pointer = int(words[-2], 16)
        for mapping in mappings:
            if mapping["start"] <= pointer < mapping["stop"]:
                found[mapping["start"]] = mapping
    return list(found.values())


def library_paths(mappings: list[Mapping]) -> set[str]:
    """Paths of files that have code in them, or are named as shared objects."""
    return {
        m["path"]
        for m in mappings
        if m["path"].startswith("/") and ("x" in m["permissions"] or ".so" in m["path"])
    }


def zeroed_bytes(path: str) -> int:
    """How much anonymous memory (.bss) an ELF64 file wants behind its own pages, at most."""
    with open(path, "rb") as file:
        header = file.read(64)
        (table,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        entries = [os.pread(file.fileno(), 56, table + size * i) for i in range(count)]
    loads = [struct.unpack("<IIQQQQQQ", entry) for entry in entries]
    return sum(
        memory - stored + PAGE_BYTES
        for kind, _, _, _, _, stored, memory, _ in loads
        if kind == 1 and memory > stored
    )
