"""Starts a thread that runs Python source in another process.

One of its threads is borrowed for about a millisecond, at a point where it holds no lock of the C
library, to call pthread_create; the rest of the process is never stopped. The new thread waits for
the GIL like any other, so that it cannot cause a deadlock.
"""

import os
import random
import signal
import time
from contextlib import suppress

from ramledger.agent.fork_guard import wait_for_end
from ramledger.attach.cpu_abi import NOT_READY, PAGE_BYTES, Layout, Registers, program, work_bytes
from ramledger.attach.elf import Memory
from ramledger.attach.target import Target
from ramledger.attach.tracee import GroupStopError, NotStoppedError, ThreadGoneError, Tracee
from ramledger.errors import MeasureError
from ramledger.measure import proc

_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_MAP_PRIVATE_ANONYMOUS = 0x22
_STACK_BYTES = 1 << 16
_LARGEST_ERRNO = 4095

_STOP_SECONDS = 0.1
_CALL_SECONDS = 2.0
_RECALL_SECONDS = 60.0
_FLAG_SECONDS = 0.25
_ROUNDS_ON_MAIN_ALONE = 4
_THREADS_A_ROUND = 32


def start_python(target: Target, source: str, deadline: float) -> None:
    """Start a thread in the process that runs `source` (ASCII); returns once it has started."""
    encoded = source.encode("ascii")
    began = time.monotonic()
    rounds = 0
    while True:
        # A blocked signal may mean that its handler has interrupted malloc. So at first only
        # threads that block no signal are used; but some programs always block signals.
        is_strict = time.monotonic() < (began + deadline) / 2
        for thread_id in _candidates(target.pid, rounds):
            if _attempt_in_own_thread(target, thread_id, encoded, is_strict):
                return
        if time.monotonic() > deadline:
            raise MeasureError(
                f"no thread of process {target.pid} could be interrupted safely",
                pid=target.pid,
                hint="try again, or start it under `ramledger run`",
            )
        rounds += 1
        time.sleep(random.uniform(0.0005, 0.002) * min(rounds, 10))


class _NotReadyError(Exception):
    """The interpreter is still starting, or ending already."""


def _candidates(pid: int, rounds: int) -> list[int]:
    """The main thread, which is mostly in Python; later the other threads, too."""
    threads = list(proc.thread_ids(pid))
    if rounds < _ROUNDS_ON_MAIN_ALONE:
        return threads[:1]
    random.shuffle(threads)
    return threads[:_THREADS_A_ROUND]


def _attempt_in_own_thread(target: Target, thread_id: int, source: bytes, is_strict: bool) -> bool:
    """Attempt in a thread that ends at once, with signals blocked that would end this process."""
    from threading import Thread, get_native_id

    outcome: list[bool | BaseException] = []
    tracer_id = 0

    def attempt() -> None:
        nonlocal tracer_id
        tracer_id = get_native_id()
        try:
            outcome.append(_attempt(target, thread_id, source, is_strict))
        except BaseException as error:
            outcome.append(error)

    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        tracer = Thread(target=attempt)
        tracer.start()
        tracer.join()
        wait_for_end(
            tracer_id, _STOP_SECONDS
        )  # the kernel detaches a traced thread when its tracing thread ends
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _attempt(target: Target, thread_id: int, source: bytes, is_strict: bool) -> bool:
    """Borrow this thread if it is at a safe point now."""
    try:
        tracee = Tracee(thread_id, target.machine)
        tracee.stop(time.monotonic() + _STOP_SECONDS)
        registers = tracee.registers()
        if not _is_safe(tracee, target, registers, is_strict):
            tracee.detach()
            return False
        _borrow(tracee, target, registers, source)
        return True
    except (NotStoppedError, ThreadGoneError, _NotReadyError):
        proc.read_stat(target.pid)  # raises if the whole process is gone
        return False
    except GroupStopError:
        raise stopped_error(target.pid) from None


def stopped_error(pid: int) -> MeasureError:
    """For a process under SIGSTOP or suspended from its terminal."""
    return MeasureError(
        f"process {pid} is stopped and cannot answer", pid=pid, hint=f"kill -CONT {pid}"
    )


def _is_safe(tracee: Tracee, target: Target, registers: Registers, is_strict: bool) -> bool:
    if is_strict and tracee.signal_mask():
        return False
    if not target.is_same_program():
        raise MeasureError(
            f"process {target.pid} has been replaced by another program (exec)", pid=target.pid
        )
    with Memory(target.pid) as memory:
        return target.is_safe(registers, memory.read)


def _borrow(tracee: Tracee, target: Target, registers: Registers, source: bytes) -> None:
    """Make the stopped thread call pthread_create, then restore it."""
    loan = _BorrowedThread(tracee, target, registers)
    try:
        loan.start_thread(source)
    except NotStoppedError:
        # an unexpected lock: with its registers restored, the thread never tried to take it
        tracee.stop_running(time.monotonic() + _RECALL_SECONDS)
        raise MeasureError(
            f"process {target.pid} could not start a thread for us", pid=target.pid
        ) from None
    finally:
        loan.give_back()


class _BorrowedThread:
    """A stopped thread that runs our code, and its state before that."""

    def __init__(self, tracee: Tracee, target: Target, registers: Registers) -> None:
        self._tracee = tracee
        self._target = target
        self._registers = registers
        self._vector_registers = tracee.vector_registers()
        self._signal_mask = tracee.signal_mask()
        tracee.block_signals()

    def start_thread(self, source: bytes) -> None:
        """Map our code and a stack, and run pthread_create there."""
        machine, tracee, pid = self._target.machine, self._tracee, self._target.pid
        work_size = work_bytes(source)
        code_size = PAGE_BYTES + work_size
        # never writable and executable in the process: some systems forbid that
        code = self._map(code_size, _PROT_READ | _PROT_EXEC)
        stack = self._map(_STACK_BYTES + PAGE_BYTES, _PROT_READ | _PROT_WRITE)
        top = stack + _STACK_BYTES
        layout = Layout(launch=code, work=code + PAGE_BYTES, work_bytes=work_size, flag=top)
        _write_memory(pid, code, program(machine, self._target.functions, layout, source))
        tracee.set_registers(machine.for_jump(self._registers, code, top))
        tracee.run_to_trap(code, code + PAGE_BYTES, time.monotonic() + _CALL_SECONDS)
        failure = machine.result(tracee.registers()) & 0xFFFFFFFF
        if failure:
            self._system_call(machine.munmap, code, code_size)
            self._system_call(machine.munmap, stack, _STACK_BYTES + PAGE_BYTES)
        if failure == NOT_READY:
            raise _NotReadyError
        if failure:
            raise MeasureError(
                f"process {pid} could not start a thread for us: {os.strerror(failure)}", pid=pid
            )
        _wait_for_flag(pid, layout.flag)
        self._system_call(machine.munmap, code, PAGE_BYTES)
        self._system_call(machine.munmap, stack, _STACK_BYTES)

    def give_back(self) -> None:
        """Restore registers and signal mask, and let the thread continue."""
        for kind, data in self._vector_registers.items():
            self._tracee.set_register_set(kind, data)
        self._tracee.set_registers(self._registers)
        self._tracee.set_signal_mask(self._signal_mask)
        self._tracee.detach()

    def _map(self, size: int, protection: int) -> int:
        arguments = (0, size, protection, _MAP_PRIVATE_ANONYMOUS, -1, 0)
        return self._system_call(self._target.machine.mmap, *arguments)

    def _system_call(self, number: int, *arguments: int) -> int:
        machine, tracee = self._target.machine, self._tracee
        at = self._target.syscall_at
        tracee.set_registers(machine.for_syscall(self._registers, at, number, arguments))
        tracee.step(time.monotonic() + _CALL_SECONDS)
        result = machine.result(tracee.registers())
        if -_LARGEST_ERRNO <= result < 0:
            raise MeasureError(
                f"process {self._target.pid} refuses memory for our code: {os.strerror(-result)}",
                pid=self._target.pid,
            )
        return result


def _wait_for_flag(pid: int, flag: int) -> None:
    """Hold the borrowed thread until the new one is known to Python.

    If the process is about to end, Python could free the new thread's state while it is being set
    up. The wait is short: the borrowed thread may hold a lock that the new one needs.
    """
    deadline = time.monotonic() + _FLAG_SECONDS
    with (
        Memory(pid) as memory,
        suppress(OSError),
    ):  # the page is already unmapped if the thread is done
        while memory.read(flag, 1) == b"\0" and time.monotonic() < deadline:
            time.sleep(0.00005)


def _write_memory(pid: int, address: int, data: bytes) -> None:
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, data, address)
    finally:
        os.close(descriptor)
