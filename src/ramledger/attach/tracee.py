"""One thread of another process, stopped by ptrace for a few hundred microseconds.

Use a Tracee in a thread that ends soon: the kernel detaches all traced threads when the
tracing thread ends, also one that could not be stopped.
"""

import ctypes
import errno
import os
import signal
import struct
import time

from ramledger.attach.cpu_abi import CpuAbi, Registers

_CONT, _SINGLESTEP, _DETACH = 7, 9, 17
_GETREGSET, _SETREGSET, _SEIZE, _INTERRUPT = 0x4204, 0x4205, 0x4206, 0x4207
_GETSIGMASK, _SETSIGMASK = 0x420A, 0x420B
_EVENT_STOP = 128
_WALL = 0x40000000
_ANY_CHANGE = os.WSTOPPED | os.WEXITED | os.WNOHANG | _WALL
_ENDS = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
_NT_PRSTATUS = 1
_LARGEST_REGISTER_SET_BYTES = 1 << 16
_POLL_SECONDS = 0.00005

# faults of the thread itself: if blocked, they kill the process without calling its handler
_FAULTS = (signal.SIGTRAP, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_ALL_BUT_FAULTS = ~sum(1 << (number - 1) for number in _FAULTS) & ((1 << 64) - 1)


class ThreadGoneError(Exception):
    """The thread ended, was killed, or its process became another program."""


class NotStoppedError(Exception):
    """The thread did not stop in time; it may sit in the kernel, uninterruptibly."""


class GroupStopError(Exception):
    """The process was stopped by SIGSTOP or by its terminal."""


class _IoVec(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Tracee:
    """Seize, stop, change, restore, detach. Only the thread that created it may use it."""

    def __init__(self, thread_id: int, machine: CpuAbi) -> None:
        self._thread_id = thread_id
        self._machine = machine
        self._ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self._ptrace.restype = ctypes.c_long
        self._ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._held_back: list[int] = []
        self._call(_SEIZE)

    def stop(self, deadline: float) -> None:
        """Stop the thread; its pending signals are delivered first."""
        self._call(_INTERRUPT)
        while True:
            signal_number, event = self._wait(deadline)
            if event != _EVENT_STOP:
                self._call(_CONT, data=signal_number)
                self._call(_INTERRUPT)  # the other stop consumed the first one
            elif signal_number == signal.SIGTRAP:
                return
            else:
                self._call(_DETACH)
                raise GroupStopError

    def stop_running(self, deadline: float) -> None:
        """Stop a thread that runs our code; unlike in `stop`, a trap is ours and not delivered."""
        self._call(_INTERRUPT)
        self._wait(deadline)

    def detach(self) -> None:
        """Let the thread continue with its current registers."""
        for number in self._held_back:
            os.kill(
                self._thread_id, number
            )  # first: while the thread is stopped, its id cannot be reused
        self._call(_DETACH)

    def registers(self) -> Registers:
        """The general registers, as the kernel orders them."""
        data = self.register_set(_NT_PRSTATUS)
        return struct.unpack(f"<{self._machine.register_count}Q", data)

    def set_registers(self, registers: Registers) -> None:
        """Replace the general registers."""
        self.set_register_set(_NT_PRSTATUS, struct.pack(f"<{len(registers)}Q", *registers))

    def register_set(self, kind: int) -> bytes:
        """One register set as bytes; OSError (EINVAL, ENODEV) if this processor has none."""
        buffer = ctypes.create_string_buffer(_LARGEST_REGISTER_SET_BYTES)
        vector = _IoVec(ctypes.addressof(buffer), len(buffer))
        self._call(_GETREGSET, kind, ctypes.addressof(vector))
        return buffer.raw[: vector.size]

    def set_register_set(self, kind: int, data: bytes) -> None:
        """Replace one register set."""
        buffer = ctypes.create_string_buffer(data, len(data))
        vector = _IoVec(ctypes.addressof(buffer), len(data))
        self._call(_SETREGSET, kind, ctypes.addressof(vector))

    def vector_registers(self) -> dict[int, bytes]:
        """Floating-point and vector registers, which a function call may change."""
        sets = {}
        for kind in self._machine.vector_register_sets:
            try:
                sets[kind] = self.register_set(kind)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.ENODEV):
                    raise
        return sets

    def signal_mask(self) -> int:
        """The signals the thread blocks, bit 0 being signal 1."""
        mask = ctypes.c_uint64()
        self._call(_GETSIGMASK, 8, ctypes.addressof(mask))
        return mask.value

    def set_signal_mask(self, blocked: int) -> None:
        """Replace the signals the thread blocks."""
        mask = ctypes.c_uint64(blocked)
        self._call(_SETSIGMASK, 8, ctypes.addressof(mask))

    def block_signals(self) -> None:
        """Block all but faults: no handler of the program may run in the middle of our call."""
        self.set_signal_mask(_ALL_BUT_FAULTS)

    def step(self, deadline: float) -> None:
        """Execute one instruction."""
        self._run(_SINGLESTEP, deadline)

    def run_to_trap(self, start: int, stop: int, deadline: float) -> None:
        """Continue to a trap instruction between these addresses."""
        self._run(_CONT, deadline)
        while not start <= self._machine.program_counter(self.registers()) <= stop:
            self._run(_CONT, deadline)

    def _run(self, request: int, deadline: float) -> None:
        self._call(request)
        while True:
            signal_number, event = self._wait(deadline)
            if event == 0 and signal_number == signal.SIGTRAP:
                return
            if event == 0 and signal_number in _FAULTS:
                raise OSError(errno.EFAULT, f"signal {signal_number} in the borrowed thread")
            if event == 0:
                self._held_back.append(signal_number)  # SIGSTOP, which nothing can block
            self._call(request)

    def _wait(self, deadline: float) -> tuple[int, int]:
        """The next stop: its signal and, behind it, its ptrace event (0 for a signal's arrival)."""
        try:
            while True:
                # WNOWAIT: if the process is our child, other code collects its end
                change = os.waitid(os.P_PID, self._thread_id, _ANY_CHANGE | os.WNOWAIT)
                if change is not None and change.si_code in _ENDS:
                    raise ThreadGoneError
                if change is not None:
                    os.waitid(os.P_PID, self._thread_id, os.WSTOPPED | os.WNOHANG | _WALL)
                    return change.si_status & 0xFF, change.si_status >> 8
                if time.monotonic() > deadline:
                    raise NotStoppedError
                time.sleep(_POLL_SECONDS)
        except ChildProcessError as error:
            raise ThreadGoneError from error

    def _call(self, request: int, address: int = 0, data: int = 0) -> None:
        if self._ptrace(request, self._thread_id, address, data) == -1:
            number = ctypes.get_errno()
            if number == errno.ESRCH:
                raise ThreadGoneError
            raise OSError(number, os.strerror(number))
