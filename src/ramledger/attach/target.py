"""A Python process to enter: its version, functions to call, code that must not be interrupted."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from ramledger.attach.cpu_abi import CpuAbi, Functions, Read, Registers, cpu_abi_for
from ramledger.attach.elf import Memory, Module, Symbols, read_maps, read_modules
from ramledger.errors import MeasureError

_C_LIBRARY = ("libc.so", "libc-2", "libpthread")  # two libraries before glibc 2.34
_LOADER = ("ld-", "ld.so", "ld64.so")
_C_NAMES = (
    *("getpid", "munmap", "__errno_location"),
    *("pthread_create", "pthread_self", "pthread_detach"),
)
_PYTHON_NAMES = (
    *("Py_Version", "Py_IsInitialized", "PyInterpreterState_Main", "PyRun_SimpleString"),
    *("PyThreadState_New", "PyThreadState_Clear", "PyThreadState_DeleteCurrent"),
    "PyEval_RestoreThread",
)
_EMULATORS = ("memcheck", "callgrind", "massif", "valgrind", "qemu-", "rosetta")


@dataclass(frozen=True, slots=True)
class Target:
    """What we must know of a Python process to start a thread in it."""

    pid: int
    python: tuple[int, int]
    machine: CpuAbi
    functions: Functions
    syscall_at: int
    homes: tuple[Module, ...]  # of the functions
    c_library: tuple[Module, ...]  # code that may hold locks, except in known system calls
    delicate: tuple[Module, ...]  # code that may always hold locks: loader, allocators

    def is_same_program(self) -> bool:
        """Whether the program is still the same; exec() may have replaced it meanwhile."""
        maps = read_maps(self.pid)
        return all(module.first_line in maps for module in self.homes)

    def is_safe(self, registers: Registers, read: Read) -> bool:
        """Whether a thread with these registers holds no lock that pthread_create may need."""
        at = self.machine.program_counter(registers)
        if any(module.holds(at) for module in self.delicate):
            return False
        if any(module.holds(at) for module in self.c_library):
            return self.machine.waits(registers, read)
        return True


def survey(pid: int) -> Target:
    """Find the interpreter, its version and the functions; OSError if memory is unreadable."""
    modules = [module for module in read_modules(pid) if module.executable]
    with Memory(pid) as memory:
        return _survey(pid, modules, memory)


def _survey(pid: int, modules: list[Module], memory: Memory) -> Target:
    executable = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    if executable.startswith(_EMULATORS):
        raise MeasureError(f"process {pid} runs in an emulator ({executable})", pid=pid)
    tables = _symbol_tables(memory, modules)
    home, python = _python_names(pid, tables, executable)
    c_library = {m: table for m, table in tables.items() if m.name.startswith(_C_LIBRARY)}
    c_names = _c_names(pid, c_library)
    machine = cpu_abi_for(next(iter(c_library.values())).machine)
    if machine is None:
        raise MeasureError(
            f"process {pid} cannot be entered: its processor is neither x86-64 nor aarch64",
            pid=pid,
            hint="start it under `ramledger run`",
        )
    allocators = [m for m, table in tables.items() if table.address("malloc")]
    loaders = [module for module in modules if module.name.startswith(_LOADER)]
    return Target(
        pid=pid,
        python=_version(memory, python["Py_Version"]),
        machine=machine,
        functions=Functions(
            errno_location=c_names["__errno_location"],
            pthread_create=c_names["pthread_create"],
            pthread_self=c_names["pthread_self"],
            pthread_detach=c_names["pthread_detach"],
            munmap=c_names["munmap"],
            is_initialized=python["Py_IsInitialized"],
            main_interpreter=python["PyInterpreterState_Main"],
            new_thread_state=python["PyThreadState_New"],
            take_lock=python["PyEval_RestoreThread"],
            run_string=python["PyRun_SimpleString"],
            clear_thread_state=python["PyThreadState_Clear"],
            delete_thread_state=python["PyThreadState_DeleteCurrent"],
        ),
        syscall_at=_syscall_instruction(pid, memory, machine, c_names["getpid"]),
        homes=(home, *c_library),
        c_library=tuple(c_library),
        delicate=(*loaders, *(module for module in allocators if module not in c_library)),
    )


def _symbol_tables(memory: Memory, modules: list[Module]) -> dict[Module, Symbols]:
    tables = {}
    for module in modules:
        try:
            tables[module] = Symbols(memory, module)
        except ValueError:
            continue
    return tables


def _python_names(
    pid: int, tables: dict[Module, Symbols], executable: str
) -> tuple[Module, dict[str, int]]:
    home = next((m for m, table in tables.items() if table.address("PyEval_RestoreThread")), None)
    if home is None:
        raise MeasureError(f"process {pid} ({executable}) is not a Python process", pid=pid)
    found = _addresses([tables[home]], _PYTHON_NAMES)
    if len(found) < len(_PYTHON_NAMES):
        raise MeasureError(
            f"process {pid} runs a Python older than 3.11 ({home.name})",
            pid=pid,
            hint="ramledger's own code needs Python 3.11 in the process it enters",
        )
    return home, found


def _c_names(pid: int, c_library: dict[Module, Symbols]) -> dict[str, int]:
    found = _addresses(c_library.values(), _C_NAMES)
    if len(found) < len(_C_NAMES):
        raise MeasureError(
            f"process {pid} cannot be entered: its C library is not glibc, or linked statically",
            pid=pid,
            hint="start it under `ramledger run`",
        )
    return found


def _addresses(tables: Iterable[Symbols], names: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for table in tables:
        for name in names:
            address = table.address(name)
            if address is not None:
                found.setdefault(name, address)
    return found


def _syscall_instruction(pid: int, memory: Memory, machine: CpuAbi, getpid: int) -> int:
    """Where the C library enters the kernel; getpid is short and does nothing else."""
    offset = memory.read(getpid, 64).find(machine.syscall_instruction)
    if offset < 0:
        raise MeasureError(f"process {pid} cannot be entered: its getpid is unusual", pid=pid)
    return getpid + offset


def _version(memory: Memory, address: int) -> tuple[int, int]:
    number = int.from_bytes(memory.read(address, 8), "little")
    return number >> 24 & 0xFF, number >> 16 & 0xFF
