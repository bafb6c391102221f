"""All access to /proc: facts about a process; an OSError becomes one of our errors here."""

import errno
import os
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ramledger import descriptors, ledger
from ramledger.descriptors import (
    OwnedDescriptor,
    list_folder,
    open_kernel_file,
    read_kernel_file,
)
from ramledger.errors import MeasureError, NotPermittedError, ProcessGoneError

PROC = "/proc"

# include/linux/sched.h; field 9 of /proc/PID/stat
_PF_KTHREAD = 0x00200000
_PF_EXITING = 0x00000004
_LARGEST_PID = 1 << 22  # PID_MAX_LIMIT of a 64-bit kernel
_STAT_BYTES = 4096  # 52 numbers and a name of 64 bytes at most
_PIECE_BYTES = 48 * 1024  # twice that is below the smallest mmap threshold of malloc
# The kernel fills one page with records as long as less than this is in it. A record that does not
# fit is thrown away and made again at the next read: for a heap of gigabytes that takes long.
_READ_BYTES = 3072
_GONE = (errno.ENOENT, errno.ESRCH, errno.ENOTDIR)
_DENIED = (errno.EACCES, errno.EPERM)


class ProcessKind(StrEnum):
    """What a process is; only `python` and `other` have memory of their own."""

    PYTHON = "python"
    OTHER = "other"
    KERNEL_THREAD = "kernel-thread"
    ZOMBIE = "zombie"


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What /proc says about a process, apart from its memory."""

    pid: int
    command: str
    executable: str
    threads: int
    uptime_seconds: float
    state: str
    parent_pid: int
    kind: ProcessKind
    bits: int


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat that are used."""

    comm: str
    state: str
    parent_pid: int
    flags: int
    threads: int
    start_ticks: int

    @property
    def is_kernel_thread(self) -> bool:
        return bool(self.flags & _PF_KTHREAD)

    @property
    def is_zombie(self) -> bool:
        return self.state in "ZX"

    @property
    def has_memory(self) -> bool:
        # a process releases its memory before it becomes a zombie: do_exit() of the kernel
        return not (self.is_zombie or self.flags & (_PF_KTHREAD | _PF_EXITING))


def require_linux() -> None:
    """Raise a MeasureError on other systems, and where /proc is not mounted."""
    if not sys.platform.startswith("linux"):
        raise MeasureError(
            f"ramledger needs Linux to measure memory, this is {sys.platform}",
            hint="run it on Linux, in a Linux container or in WSL 2; "
            "`report` and `diagnose` work on every system",
        )
    if not os.path.exists(f"{PROC}/self/stat"):
        raise MeasureError(f"{PROC} is not mounted", hint="mount it: mount -t proc proc /proc")


def read_bytes(pid: int, name: str) -> bytes:
    """The content of /proc/PID/`name`."""
    try:
        return read_kernel_file(f"{PROC}/{pid:d}/{name}")
    except OSError as error:
        raise measure_error(pid, error, name) from error


def read_pieces(pid: int, name: str, last_line: bytes) -> Iterator[bytes]:
    """The content of /proc/PID/`name` in pieces, each up to a line that begins with `last_line`.

    The whole text would be one large malloc block, and freeing that would change how malloc serves
    the program (M_MMAP_THRESHOLD in mallopt(3)).
    """
    parts: list[bytes] = []
    size = 0
    try:
        for part in descriptors.read_pieces(f"{PROC}/{pid:d}/{name}", _READ_BYTES):
            parts.append(part)
            size += len(part)
            if size < _PIECE_BYTES:
                continue
            text = b"".join(parts)
            at = text.rfind(last_line)
            end = text.find(b"\n", at + 1) + 1 if at >= 0 else 0
            if end:
                yield text[:end]
            parts, size = [text[end:]], len(text) - end
    except OSError as error:
        raise measure_error(pid, error, name) from error
    if rest := b"".join(parts):
        yield rest


def read_text(pid: int, name: str) -> str:
    """The content of /proc/PID/`name` as text; bytes that are not UTF-8 become \\xNN."""
    return read_bytes(pid, name).decode("utf-8", "backslashreplace")


def printable(text: bytes | str) -> str:
    """Text with control characters and broken UTF-8 as escapes.

    A process chooses its own name and its files' names; they must not control the terminal.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    return ledger.printable(text)


def open_file(pid: int, name: str) -> OwnedDescriptor:
    """/proc/PID/`name`, open for reading; the caller closes it."""
    try:
        return open_kernel_file(f"{PROC}/{pid:d}/{name}")
    except OSError as error:
        raise measure_error(pid, error, name) from error


def thread_ids(pid: int) -> tuple[int, ...]:
    """The ids of the process's threads, its main thread first."""
    try:
        names = list_folder(f"{PROC}/{pid:d}/task")
    except OSError as error:
        raise measure_error(pid, error, "task") from error
    return tuple(sorted(int(name) for name in names))


def process_ids() -> tuple[int, ...]:
    """The ids of all processes that /proc shows to this user."""
    require_linux()
    return tuple(sorted(int(name) for name in os.listdir(PROC) if name.isdecimal()))


def read_stat(pid: int) -> Stat:
    """State, parent, flags, thread count and start of a process; readable by every user."""
    try:
        data = descriptors.read_beginning(f"{PROC}/{pid:d}/stat", _STAT_BYTES)
    except OSError as error:
        raise measure_error(pid, error, "stat") from error
    # comm is the only field that may hold blanks and parentheses: proc(5)
    opening, closing = data.find(b"("), data.rfind(b")")
    fields = data[closing + 2 :].split()
    if opening < 0 or closing < 0 or len(fields) < 20:
        raise MeasureError(f"cannot understand {PROC}/{pid}/stat", pid=pid)
    return Stat(
        comm=printable(data[opening + 1 : closing]),
        state=fields[0].decode("ascii", "replace"),
        parent_pid=int(fields[1]),
        flags=int(fields[6]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
    )


def has_memory(pid: int) -> bool:
    """Whether the process has an address space: a kernel thread and a zombie have none."""
    return read_stat(pid).has_memory


def read_status(pid: int) -> dict[str, str]:
    """/proc/PID/status as a dictionary; readable by every user."""
    lines = read_text(pid, "status").splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def status_bytes(status: dict[str, str], name: str) -> int:
    """A size in kB of /proc/PID/status in bytes; 0 where the kernel does not print it."""
    return int(status.get(name, "0").split()[0]) * 1024


def process_facts(pid: int) -> ProcessFacts:
    """What /proc says about a process; for other users' processes with less detail."""
    require_linux()
    status = read_status(pid)
    _require_leader(pid, status)
    stat = read_stat(pid)
    executable = _executable(pid)
    arguments = _arguments(pid)
    return ProcessFacts(
        pid=pid,
        command=_command(arguments, stat.comm),
        executable=executable,
        threads=stat.threads,
        uptime_seconds=_uptime_seconds(stat),
        state=stat.state,
        parent_pid=stat.parent_pid,
        kind=_kind(pid, stat, executable, arguments),
        bits=_bits(pid),
    )


def measure_error(pid: int, error: OSError, name: str) -> MeasureError:
    """Our error for an OSError from reading /proc/PID/`name`."""
    if error.errno in _DENIED:
        return _not_permitted(pid, name)
    if error.errno in _GONE:
        return _gone(pid, name)
    return MeasureError(f"cannot read {PROC}/{pid}/{name}: {error.strerror}", pid=pid)


def _gone(pid: int, name: str) -> MeasureError:
    try:
        require_linux()
    except MeasureError as error:
        return error
    if _is_hidden(pid):
        return NotPermittedError(
            f"process {pid} is hidden from this user",
            pid=pid,
            hint="/proc is mounted with hidepid: run as the user who owns it, or with sudo",
        )
    if os.path.exists(f"{PROC}/{pid}/stat"):
        if os.path.exists(f"{PROC}/{pid}/{name}"):
            return ProcessGoneError(
                f"process {pid} has no memory: it is a zombie or a kernel thread", pid=pid
            )
        return MeasureError(
            f"this kernel has no {PROC}/{pid}/{name}",
            pid=pid,
            hint="a container or sandbox may hide it: run ramledger on the host",
        )
    return ProcessGoneError(
        f"no process with pid {pid}", pid=pid, hint="it may have ended: `ps` lists live processes"
    )


def _not_permitted(pid: int, name: str) -> NotPermittedError:
    hint = "run as the same user, or with sudo"
    if "hidepid=" in _mount_options():
        hint += "; /proc is mounted with hidepid"
    return NotPermittedError(f"not permitted to read {name} of process {pid}", pid=pid, hint=hint)


def _is_hidden(pid: int) -> bool:
    """Whether the process exists although /proc does not show it: hidepid=2."""
    if PROC != "/proc" or not 0 < pid <= _LARGEST_PID or os.path.exists(f"{PROC}/{pid}"):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # it started after the failed read, or is our own: not hidden
    return False


def _mount_options() -> str:
    """Mount options of /proc; if it is mounted twice, those of the last mount."""
    try:
        text = read_kernel_file(f"{PROC}/self/mounts").decode("utf-8", "replace")
        mounts = [line.split() for line in text.splitlines()]
    except OSError:
        return ""
    return next((words[3] for words in reversed(mounts) if words[1] == "/proc"), "")


def _require_leader(pid: int, status: dict[str, str]) -> None:
    """Refuse a thread's id: /proc/TID can be read, but a thread has no memory of its own."""
    process = int(status.get("Tgid", pid))
    if process != pid:
        raise ProcessGoneError(
            f"{pid} is a thread of process {process}, not a process",
            pid=pid,
            hint=f"use pid {process}",
        )


def _uptime_seconds(stat: Stat) -> float:
    started = stat.start_ticks / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)


def _executable(pid: int) -> str:
    try:
        return printable(os.fsencode(os.readlink(f"{PROC}/{pid:d}/exe")))
    except OSError:
        return ""


def _arguments(pid: int) -> list[str]:
    try:
        data = read_bytes(pid, "cmdline").rstrip(b"\0")
    except NotPermittedError:
        return []
    return [printable(argument) for argument in data.split(b"\0")] if data else []


def _command(arguments: list[str], comm: str) -> str:
    if not arguments:
        return f"[{comm}]"
    # a title set by the process itself ("ray::IDLE") is one argument with blanks in it
    if len(arguments) == 1:
        return arguments[0]
    return shlex.join(arguments)


def _kind(pid: int, stat: Stat, executable: str, arguments: list[str]) -> ProcessKind:
    if stat.is_kernel_thread:
        return ProcessKind.KERNEL_THREAD
    if stat.is_zombie:
        return ProcessKind.ZOMBIE
    names = [executable, *arguments[:1]]
    if any(_is_interpreter(name) for name in names) or _maps_libpython(pid):
        return ProcessKind.PYTHON
    return ProcessKind.OTHER


def _is_interpreter(path: str) -> bool:
    return path.rpartition("/")[2].startswith(("python", "pypy"))


def _maps_libpython(pid: int) -> bool:
    try:
        return b"/libpython" in read_bytes(pid, "maps")
    except NotPermittedError:
        return False


def _bits(pid: int) -> int:
    """32 or 64 by the ELF class of the executable; this interpreter's own if it is unreadable."""
    try:
        with open_kernel_file(f"{PROC}/{pid:d}/exe") as file:
            header = os.pread(file.fileno(), 5, 0)
    except OSError:
        header = b""
    if header[:4] == b"\x7fELF" and header[4:] in (b"\x01", b"\x02"):
        return 32 * header[4]
    return 64 if sys.maxsize > 1 << 32 else 32
