"""What differs between processors when we borrow a thread: registers, system calls, machine code.

The code is two routines. `launch` runs on the borrowed thread: it starts a new thread and traps.
`work` is that new thread: it becomes a thread of Python, sets a flag, runs Python source and
unmaps itself, possibly before `launch` returns.
"""

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Registers = tuple[int, ...]
Read = Callable[[int, int], bytes]

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
NOT_READY = (
    0xFFFFFFFF  # returned by `launch` if the interpreter is still starting or already ending
)
_WORK_BYTES = 512  # the routine, with room to spare
_NONE = (1 << 64) - 1
_FUTEX_COMMAND, _FUTEX_WAIT_BITSET = 0x7F, 9


@dataclass(frozen=True, slots=True)
class Functions:
    """Addresses, in the other process, of everything the code calls."""

    errno_location: int
    pthread_create: int
    pthread_self: int
    pthread_detach: int
    munmap: int
    is_initialized: int
    main_interpreter: int
    new_thread_state: int
    take_lock: int
    run_string: int
    clear_thread_state: int
    delete_thread_state: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Addresses in the other process: a page for `launch`, pages for `work`, one for the flag."""

    launch: int
    work: int
    work_bytes: int
    flag: int

    @property
    def source(self) -> int:
        return self.work + _WORK_BYTES


def work_bytes(source: bytes) -> int:
    """The size of the pages that `work` and its source need."""
    return -(-(_WORK_BYTES + len(source) + 1) // PAGE_BYTES) * PAGE_BYTES


def program(machine: "CpuAbi", functions: Functions, layout: Layout, source: bytes) -> bytes:
    """What to write at `layout.launch`."""
    launch = machine.launch(functions, layout).ljust(PAGE_BYTES, b"\0")
    work = machine.work(functions, layout).ljust(_WORK_BYTES, b"\0")
    return launch + work + source + b"\0"


def _signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


# In all these calls glibc holds no lock that pthread_create or malloc takes. futex counts when it
# waits for a condition, semaphore or thread (WAIT_BITSET); glibc's own locks use plain WAIT.
# restart_syscall continues a sleep, poll or timed wait that was interrupted before.
_X86_64_WAITS = {
    *(0, 1, 17, 18, 19, 20),  # read write pread64 pwrite64 readv writev
    *(7, 271, 23, 270, 232, 281, 441),  # poll ppoll select pselect6 epoll_wait epoll_pwait(2)
    *(42, 43, 288, 44, 45, 46, 47, 299),  # connect accept(4) sendto recvfrom sendmsg recv(m)msg
    *(34, 35, 230, 61, 247),  # pause nanosleep clock_nanosleep wait4 waitid
    *(73, 74, 75, 219),  # flock fsync fdatasync restart_syscall
}
_AARCH64_WAITS = {
    *(63, 64, 67, 68, 65, 66),  # read write pread64 pwrite64 readv writev
    *(73, 72, 22, 441),  # ppoll pselect6 epoll_pwait(2)
    *(203, 202, 242, 206, 207, 211, 212, 243),  # connect accept(4) sendto recvfrom ...
    *(101, 115, 260, 95),  # nanosleep clock_nanosleep wait4 waitid
    *(32, 82, 83, 128),  # flock fsync fdatasync restart_syscall
}


class X86_64:
    """x86-64, as Linux shows it to a tracer; registers as in user_regs_struct."""

    elf_machine = 62
    register_count = 27
    vector_register_sets = (0x2, 0x202)  # NT_PRFPREG, NT_X86_XSTATE
    syscall_instruction = b"\x0f\x05"
    mmap, munmap = 9, 11

    _R10, _R9, _R8, _RAX, _RDX, _RSI, _RDI, _ORIG_RAX, _RIP = 7, 8, 9, 10, 12, 13, 14, 15, 16
    _EFLAGS, _RSP = 18, 19
    _ARGUMENTS = (_RDI, _RSI, _RDX, _R10, _R8, _R9)
    _FUTEX = 202

    def program_counter(self, registers: Registers) -> int:
        """The address of the next instruction."""
        return registers[self._RIP]

    def waits(self, registers: Registers, read: Read) -> bool:
        """Whether the thread is in a system call in which it holds no lock of the C library."""
        number = _signed(registers[self._ORIG_RAX])
        at = registers[self._RIP]
        # behind the instruction, or on it if the kernel is about to repeat the call
        if number < 0 or self.syscall_instruction not in (read(at - 2, 2), read(at, 2)):
            return False
        if number == self._FUTEX:
            return registers[self._RSI] & _FUTEX_COMMAND == _FUTEX_WAIT_BITSET
        return number in _X86_64_WAITS

    def for_syscall(
        self, registers: Registers, instruction: int, number: int, arguments: Sequence[int]
    ) -> Registers:
        """Registers that make the instruction at `instruction` this system call."""
        changed = list(self.for_jump(registers, instruction, registers[self._RSP]))
        changed[self._RAX] = number
        for register, value in zip(self._ARGUMENTS, arguments, strict=False):
            changed[register] = value & _NONE
        return tuple(changed)

    def for_jump(self, registers: Registers, target: int, stack: int) -> Registers:
        """Registers that continue at `target` with another stack."""
        changed = list(registers)
        changed[self._ORIG_RAX] = _NONE  # or the kernel would "repeat" the interrupted call here
        changed[self._RIP], changed[self._RSP] = target, stack
        changed[self._EFLAGS] = 0x202  # no direction flag: the ABI's state at a call
        return tuple(changed)

    def result(self, registers: Registers) -> int:
        """What a system call or function has returned, signed."""
        return _signed(registers[self._RAX])

    def launch(self, functions: Functions, layout: Layout) -> bytes:
        """pthread_create(work, source), or NOT_READY if there is no interpreter; then a trap."""
        create = b"".join(
            (
                b"\x48\x83\xec\x10",  # sub rsp, 16
                b"\x48\x89\xe7",  # mov rdi, rsp
                b"\x31\xf6",  # xor esi, esi
                b"\x48\xba" + struct.pack("<Q", layout.work),  # mov rdx, work
                b"\x48\xb9" + struct.pack("<Q", layout.source),  # mov rcx, source
                self._call(functions.pthread_create),
            )
        )
        return b"".join(
            (
                self._call(functions.errno_location),
                b"\x49\x89\xc4",  # mov r12, rax
                b"\x44\x8b\x28",  # mov r13d, [rax]: errno is the borrowed thread's, keep it
                self._call(functions.is_initialized),
                b"\x85\xc0\x0f\x94\xc0\x0f\xb6\xc0",  # test eax, eax; sete al; movzx eax, al
                b"\xf7\xd8\x75" + bytes([len(create)]),  # neg eax; jnz behind create
                create,
                b"\x45\x89\x2c\x24",  # mov [r12], r13d
                b"\xcc",  # int3
            )
        )

    def work(self, functions: Functions, layout: Layout) -> bytes:
        """Run the source that the argument points to, then unmap itself and the flag."""
        set_flag = b"\x48\xb8" + struct.pack("<Q", layout.flag) + b"\xc6\x00\x01"  # mov [flag], 1
        run = b"".join(
            (
                set_flag,
                b"\x48\x89\xef",  # mov rdi, rbp
                self._call(functions.take_lock),
                b"\x48\x89\xdf",  # mov rdi, rbx
                self._call(functions.run_string),
                b"\x48\x89\xef",  # mov rdi, rbp
                self._call(functions.clear_thread_state),
                self._call(functions.delete_thread_state),
            )
        )
        thread = b"".join(
            (
                b"\x48\x89\xc7",  # mov rdi, rax
                self._call(functions.new_thread_state),
                b"\x48\x89\xc5",  # mov rbp, rax
                self._skip_if_null(run),
            )
        )
        interpreter = self._call(functions.main_interpreter) + self._skip_if_null(thread)
        return b"".join(
            (
                b"\x53\x55\x48\x83\xec\x08",  # push rbx; push rbp; sub rsp, 8
                b"\x48\x89\xfb",  # mov rbx, rdi
                self._call(functions.pthread_self),
                b"\x48\x89\xc7",  # mov rdi, rax
                self._call(functions.pthread_detach),
                self._call(functions.is_initialized),
                b"\x89\xc0",  # mov eax, eax: an int, without what is above it
                self._skip_if_null(interpreter),
                set_flag,
                b"\x48\xbf" + struct.pack("<Q", layout.flag),  # mov rdi, flag
                b"\xbe" + struct.pack("<I", PAGE_BYTES),  # mov esi, PAGE_BYTES
                self._call(functions.munmap),
                b"\x48\x83\xc4\x08\x5d\x5b",  # add rsp, 8; pop rbp; pop rbx
                b"\x48\xbf" + struct.pack("<Q", layout.work),  # mov rdi, work
                b"\xbe" + struct.pack("<I", layout.work_bytes),  # mov esi, work_bytes
                b"\x48\xb8" + struct.pack("<Q", functions.munmap),  # mov rax, munmap
                b"\xff\xe0",  # jmp rax: munmap returns to our caller, this code is gone
            )
        )

    @staticmethod
    def _skip_if_null(code: bytes) -> bytes:
        return b"\x48\x85\xc0\x0f\x84" + struct.pack("<i", len(code)) + code  # test rax; jz

    @staticmethod
    def _call(address: int) -> bytes:
        return b"\x48\xb8" + struct.pack("<Q", address) + b"\xff\xd0"  # mov rax, address; call rax


class Aarch64:
    """AArch64, with the same methods; its registers are x0 to x30, sp, pc and pstate."""

    elf_machine = 183
    register_count = 34
    vector_register_sets = (0x2, 0x405)  # NT_PRFPREG, NT_ARM_SVE
    syscall_instruction = b"\x01\x00\x00\xd4"
    mmap, munmap = 222, 215

    _SP, _PC = 31, 32
    _FUTEX = 98

    def program_counter(self, registers: Registers) -> int:
        return registers[self._PC]

    def waits(self, registers: Registers, read: Read) -> bool:
        at, number = registers[self._PC], registers[8]
        # this kernel steps back onto the instruction before a tracer sees an interrupted call
        if self.syscall_instruction not in (read(at, 4), read(at - 4, 4)):
            return False
        if number == self._FUTEX:
            return registers[1] & _FUTEX_COMMAND == _FUTEX_WAIT_BITSET
        return number in _AARCH64_WAITS

    def for_syscall(
        self, registers: Registers, instruction: int, number: int, arguments: Sequence[int]
    ) -> Registers:
        changed = list(self.for_jump(registers, instruction, registers[self._SP]))
        changed[8] = number
        for register, value in enumerate(arguments):
            changed[register] = value & _NONE
        return tuple(changed)

    def for_jump(self, registers: Registers, target: int, stack: int) -> Registers:
        changed = list(registers)
        changed[self._PC], changed[self._SP] = target, stack
        return tuple(changed)

    def result(self, registers: Registers) -> int:
        return _signed(registers[0])

    def launch(self, functions: Functions, layout: Layout) -> bytes:
        code = _Aarch64Code()
        code.call(functions.errno_location)
        code.emit(0xAA0003F3)  # mov x19, x0
        code.emit(0xB9400014)  # ldr w20, [x0]: errno is the borrowed thread's, keep it
        code.call(functions.is_initialized)
        code.emit(0x7100001F)  # cmp w0, #0
        code.emit(0x5A9F13E0)  # csetm w0, eq
        code.skip_if_not_null()
        code.emit(0xD10043FF)  # sub sp, sp, #16
        code.emit(0x910003E0)  # mov x0, sp
        code.emit(0xD2800001)  # mov x1, #0
        code.load(2, layout.work)
        code.load(3, layout.source)
        code.call(functions.pthread_create)
        code.land_skips()
        code.emit(0xB9000274)  # str w20, [x19]
        code.emit(0xD4200000)  # brk #0
        return code.assemble()

    def work(self, functions: Functions, layout: Layout) -> bytes:
        code = _Aarch64Code()
        code.emit(0xA9BE7BFD)  # stp x29, x30, [sp, #-32]!
        code.emit(0xA90153F3)  # stp x19, x20, [sp, #16]
        code.emit(0x910003FD)  # mov x29, sp
        code.emit(0xAA0003F3)  # mov x19, x0
        code.call(functions.pthread_self)
        code.call(functions.pthread_detach)
        code.call(functions.is_initialized)
        code.emit(0x2A0003E0)  # mov w0, w0: an int, without what is above it
        code.skip_if_null()
        code.call(functions.main_interpreter)
        code.skip_if_null()
        code.call(functions.new_thread_state)
        code.skip_if_null()
        code.emit(0xAA0003F4)  # mov x20, x0
        self._set_flag(code, layout)
        code.emit(0xAA1403E0)  # mov x0, x20
        code.call(functions.take_lock)
        code.emit(0xAA1303E0)  # mov x0, x19
        code.call(functions.run_string)
        code.emit(0xAA1403E0)  # mov x0, x20
        code.call(functions.clear_thread_state)
        code.call(functions.delete_thread_state)
        code.land_skips()
        self._set_flag(code, layout)
        code.load(0, layout.flag)
        code.load(1, PAGE_BYTES)
        code.call(functions.munmap)
        code.emit(0xA94153F3)  # ldp x19, x20, [sp, #16]
        code.emit(0xA8C27BFD)  # ldp x29, x30, [sp], #32
        code.load(0, layout.work)
        code.load(1, layout.work_bytes)
        code.load(16, functions.munmap)
        code.emit(0xD61F0200)  # br x16: munmap returns to our caller, this code is gone
        return code.assemble()

    @staticmethod
    def _set_flag(code: "_Aarch64Code", layout: Layout) -> None:
        code.load(1, layout.flag)
        code.emit(0x52800022)  # mov w2, #1
        code.emit(0x39000022)  # strb w2, [x1]


class _Aarch64Code:
    """Instructions with their 64-bit constants behind them."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._literals: list[int] = []
        self._skips: list[int] = []
        self._loads: list[tuple[int, int, int]] = []

    def emit(self, word: int) -> None:
        self._words.append(word)

    def load(self, register: int, value: int) -> None:
        """ldr xN, =value."""
        self._loads.append((len(self._words), register, len(self._literals)))
        self._literals.append(value)
        self._words.append(0)

    def call(self, address: int) -> None:
        self.load(16, address)
        self.emit(0xD63F0200)  # blr x16

    def skip_if_null(self) -> None:
        """cbz x0, to where `land_skips` is called."""
        self._skips.append(len(self._words))
        self.emit(0xB4000000)

    def skip_if_not_null(self) -> None:
        """cbnz w0, likewise."""
        self._skips.append(len(self._words))
        self.emit(0x35000000)

    def land_skips(self) -> None:
        for at in self._skips:
            self._words[at] |= (len(self._words) - at) << 5

    def assemble(self) -> bytes:
        padding = len(self._words) % 2
        first_literal = len(self._words) + padding
        for at, register, literal in self._loads:
            distance = first_literal + 2 * literal - at
            self._words[at] = 0x58000000 | distance << 5 | register
        words = struct.pack(f"<{len(self._words)}I", *self._words) + bytes(4 * padding)
        return words + struct.pack(f"<{len(self._literals)}Q", *self._literals)


CpuAbi = X86_64 | Aarch64


def cpu_abi_for(elf_machine: int) -> CpuAbi | None:
    """The processor of an ELF header's e_machine; None if it is not supported."""
    known: tuple[CpuAbi, ...] = (X86_64(), Aarch64())
    return next((machine for machine in known if machine.elf_machine == elf_machine), None)
