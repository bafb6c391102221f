"""Symbols read from memory against the dynamic linker's own word, and where not to interrupt."""

import ctypes
import mmap
import os
import sys
from pathlib import Path

import pytest

from ramledger.attach.cpu_abi import (
    NOT_READY,
    PAGE_BYTES,
    X86_64,
    Aarch64,
    CpuAbi,
    Functions,
    Layout,
    cpu_abi_for,
    program,
    work_bytes,
)
from ramledger.attach.elf import Memory, Module, Symbols, read_modules
from ramledger.attach.target import Target, survey
from ramledger.errors import MeasureError

LIBC = ctypes.CDLL(None)
FUNCTIONS = Functions(*(0x7F00_0000_1000 + 16 * n for n in range(12)))
SOURCE = b"print('x')\n" * 500


def linked(name: str) -> int:
    return ctypes.cast(getattr(LIBC, name), ctypes.c_void_p).value or 0


def module_of(address: int) -> Module:
    return next(module for module in read_modules(os.getpid()) if module.holds(address))


@pytest.fixture(scope="module")
def own_target() -> Target:
    return survey(os.getpid())


@pytest.mark.parametrize(
    "name", ["malloc", "pthread_create", "pthread_detach", "munmap", "__errno_location", "getpid"]
)
def test_the_addresses_are_those_of_the_dynamic_linker(name: str) -> None:
    with Memory(os.getpid()) as memory:
        module = module_of(linked(name))
        assert Symbols(memory, module).address(name) == linked(name)


def test_names_that_are_not_defined_or_not_plain_functions() -> None:
    with Memory(os.getpid()) as memory:
        symbols = Symbols(memory, module_of(linked("getpid")))
        assert symbols.address("no_such_function_anywhere") is None
        assert symbols.address("PyRun_SimpleString") is None
        assert symbols.address("memset") is None  # chosen at start-up: an IFUNC is not callable


def test_a_mapped_file_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 2 * mmap.PAGESIZE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
        module = next(m for m in read_modules(os.getpid()) if m.path == str(path))
        with Memory(os.getpid()) as memory, pytest.raises(ValueError, match="not a 64-bit ELF"):
            Symbols(memory, module)


def test_reading_where_nothing_is_mapped_is_an_error() -> None:
    with Memory(os.getpid()) as memory, pytest.raises(OSError):
        memory.read(8, 8)


def test_a_survey_of_this_process(own_target: Target) -> None:
    assert own_target.python == sys.version_info[:2]
    assert own_target.functions.pthread_create == linked("pthread_create")
    assert (
        own_target.functions.run_string
        == ctypes.cast(ctypes.pythonapi.PyRun_SimpleString, ctypes.c_void_p).value
    )
    assert own_target.is_same_program()


def test_a_survey_of_what_is_not_python() -> None:
    reader, writer = os.pipe()
    child = os.posix_spawn("/bin/cat", ["cat"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)])
    try:
        with pytest.raises(MeasureError, match="not a Python"):
            survey(child)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


X86_REGISTERS = 27
RSI, ORIG_RAX, RIP = 13, 15, 16


def x86_registers(*, at: int, number: int = -1, second_argument: int = 0) -> tuple[int, ...]:
    registers = [0] * X86_REGISTERS
    registers[RIP], registers[RSI] = at, second_argument
    registers[ORIG_RAX] = number & (1 << 64) - 1
    return tuple(registers)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="registers of this processor")
def test_where_a_thread_may_be_interrupted(own_target: Target) -> None:
    with Memory(os.getpid()) as memory:

        def is_safe(at: int, number: int = -1, second_argument: int = 0) -> bool:
            registers = x86_registers(at=at, number=number, second_argument=second_argument)
            return own_target.is_safe(registers, memory.read)

        loader = next(m for m in read_modules(os.getpid()) if m.name.startswith("ld-"))
        behind_syscall = own_target.syscall_at + 2
        assert is_safe(own_target.functions.run_string)
        assert not is_safe(linked("malloc") + 20)
        assert not is_safe(linked("pthread_create") + 20)
        assert not is_safe(loader.start + 8192)
        assert not is_safe(behind_syscall)
        assert is_safe(behind_syscall, number=35)  # nanosleep
        assert is_safe(behind_syscall, number=0)  # read
        assert not is_safe(behind_syscall, number=12)  # brk, of malloc
        assert not is_safe(behind_syscall, number=9)  # mmap
        assert not is_safe(behind_syscall, number=56)  # clone
        assert not is_safe(behind_syscall, number=202, second_argument=0x80)  # a lock of glibc
        assert is_safe(behind_syscall, number=202, second_argument=0x189)  # a condition
        assert not is_safe(linked("malloc") + 20, number=35)  # not at a system call at all


@pytest.mark.parametrize("machine", [X86_64(), Aarch64()], ids=["x86_64", "aarch64"])
def test_the_program_has_its_parts_where_the_layout_says(machine: CpuAbi) -> None:
    size = work_bytes(SOURCE)
    base = 0x7FFF_1234_5000
    layout = Layout(launch=base, work=base + PAGE_BYTES, work_bytes=size, flag=base + (1 << 20))
    whole = program(machine, FUNCTIONS, layout, SOURCE)
    assert len(whole) <= PAGE_BYTES + size < len(whole) + PAGE_BYTES
    source_at = layout.source - base
    assert whole[source_at:] == SOURCE + b"\0"
    assert len(machine.launch(FUNCTIONS, layout)) <= PAGE_BYTES
    assert len(machine.work(FUNCTIONS, layout)) <= layout.source - layout.work
    launch, work = whole[:PAGE_BYTES], whole[PAGE_BYTES:source_at]
    assert layout.work.to_bytes(8, "little") in launch
    assert layout.source.to_bytes(8, "little") in launch
    assert FUNCTIONS.pthread_create.to_bytes(8, "little") in launch
    for name in ("take_lock", "run_string", "clear_thread_state", "delete_thread_state", "munmap"):
        assert getattr(FUNCTIONS, name).to_bytes(8, "little") in work
    assert work.count(layout.flag.to_bytes(8, "little")) == 3  # set, set, unmapped


@pytest.mark.parametrize("machine", [X86_64(), Aarch64()], ids=["x86_64", "aarch64"])
def test_registers_for_a_call_keep_the_rest(machine: CpuAbi) -> None:
    registers = tuple(range(1000, 1000 + machine.register_count))
    jump = machine.for_jump(registers, 0x1234, 0x5678)
    assert machine.program_counter(jump) == 0x1234
    changed = [n for n in range(machine.register_count) if jump[n] != registers[n]]
    assert 0x5678 in jump and len(changed) <= 4
    call = machine.for_syscall(registers, 0x1234, machine.mmap, (0, 1, 2, 3, -1, 5))
    assert machine.program_counter(call) == 0x1234
    assert machine.mmap in call and (1 << 64) - 1 in call


def test_the_kinds_of_processors() -> None:
    assert isinstance(cpu_abi_for(62), X86_64)
    assert isinstance(cpu_abi_for(183), Aarch64)
    assert cpu_abi_for(243) is None  # RISC-V
    assert NOT_READY not in range(1, 200)  # not an errno of pthread_create
