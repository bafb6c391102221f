"""Who a process is, and that every way in which /proc refuses becomes one of our errors."""

import ctypes
import os
import shlex
import shutil
import struct
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ramledger.errors import MeasureError, NotPermittedError, ProcessGoneError
from ramledger.measure import proc
from ramledger.measure.proc import ProcessKind, process_facts, read_bytes, read_text, thread_ids

IDLE = "hold()"


def test_facts_of_this_process() -> None:
    facts = process_facts(os.getpid())
    assert facts.pid == os.getpid()
    assert facts.parent_pid == os.getppid()
    assert facts.executable == os.path.realpath(sys.executable)
    assert facts.threads == len(os.listdir("/proc/self/task"))
    assert facts.kind is ProcessKind.PYTHON
    assert facts.state == "R"
    assert facts.bits == struct.calcsize("P") * 8


def test_uptime_is_the_time_since_the_start(child: Callable[..., Any]) -> None:
    before = time.monotonic()
    program = child(IDLE)
    time.sleep(0.3)
    uptime = process_facts(program.pid).uptime_seconds
    # the kernel counts the start in ticks of 10 ms
    assert 0.3 <= uptime <= time.monotonic() - before + 0.02


def test_a_program_that_is_not_python() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            facts = process_facts(process.pid)
            while facts.command == "[sleep]":  # it has just begun
                facts = process_facts(process.pid)
        finally:
            process.kill()
    assert facts.kind is ProcessKind.OTHER
    assert facts.command == "sleep 1000"
    assert facts.executable == os.path.realpath(shutil.which("sleep") or "")


def test_python_inside_another_executable(tmp_path: Path) -> None:
    library = Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("LDLIBRARY")
    if library.suffix == ".a" or not library.exists():
        pytest.skip("this Python is not linked to a libpython")
    trainer = shutil.copy(os.path.realpath(sys.executable), tmp_path / "trainer")
    environment = {"PYTHONHOME": sys.base_prefix, "LD_LIBRARY_PATH": str(library.parent)}
    command = ["trainer", "-S", "-c", "print(flush=True); input()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, executable=trainer, env=environment, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        facts = process_facts(process.pid)
        process.kill()
    assert facts.executable == str(trainer)
    assert facts.kind is ProcessKind.PYTHON


def test_the_command_can_be_pasted_and_cannot_steer_a_terminal() -> None:
    nasty = ["two words", "\x1b[31mred", "new\nline", "ünï", b"broken \xff utf-8"]
    code = "print(flush=True); input()"
    command = [sys.executable, "-c", code, *nasty]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        command_line = process_facts(process.pid).command
        process.kill()
    assert command_line.isprintable()
    assert shlex.split(command_line) == [
        *(sys.executable, "-c", code, "two words"),
        *(r"\x1b[31mred", r"new\nline", "ünï", r"broken \xff utf-8"),
    ]


def test_a_title_that_a_process_gave_itself_is_not_quoted() -> None:
    title = "ray::IDLE worker 3"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([title], executable=shutil.which("cat"), **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.read(1)
        facts = process_facts(process.pid)
        process.kill()
    assert facts.command == title


def test_a_kernel_thread() -> None:
    if not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n":
        pytest.skip("kernel threads cannot be seen from here")
    facts = process_facts(2)
    assert facts.kind is ProcessKind.KERNEL_THREAD
    assert facts.command == "[kthreadd]"
    assert facts.executable == ""


def test_a_zombie(child: Callable[..., Any]) -> None:
    program = child(IDLE)
    program.end(reap=False)
    facts = process_facts(program.pid)
    assert facts.kind is ProcessKind.ZOMBIE
    assert facts.state == "Z"
    assert facts.command.startswith("[python")
    with pytest.raises(ProcessGoneError, match="has no memory: it is a zombie"):
        read_bytes(program.pid, "smaps_rollup")


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**40, 2**70])
def test_a_pid_that_cannot_be(pid: int) -> None:
    with pytest.raises(ProcessGoneError, match=f"no process with pid {pid}") as caught:
        process_facts(pid)
    assert caught.value.pid == pid
    assert caught.value.hint


@pytest.mark.parametrize("read", [process_facts, thread_ids, lambda pid: read_text(pid, "status")])
def test_a_process_that_ended(read: Callable[[int], Any], child: Callable[..., Any]) -> None:
    program = child(IDLE)
    read(program.pid)
    program.end()
    with pytest.raises(ProcessGoneError) as caught:
        read(program.pid)
    assert caught.value.pid == program.pid


def test_a_thread_is_not_a_process() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        assert set(thread_ids(os.getpid())) >= {os.getpid(), thread.native_id}
        with pytest.raises(ProcessGoneError, match="is a thread of process") as caught:
            process_facts(thread.native_id)
        assert caught.value.hint == f"use pid {os.getpid()}"
    finally:
        done.set()
        thread.join()


def test_a_process_of_another_user(
    child: Callable[..., Any], as_nobody: Callable[..., Any]
) -> None:
    program = child(IDLE)
    with pytest.raises(NotPermittedError, match="not permitted to read smaps") as caught:
        as_nobody(lambda: read_bytes(program.pid, "smaps"))
    assert caught.value.pid == program.pid
    assert caught.value.hint == "run as the same user, or with sudo"
    facts = as_nobody(lambda: process_facts(program.pid))
    assert facts.command == process_facts(program.pid).command
    assert facts.kind is ProcessKind.PYTHON
    assert facts.executable == ""


@pytest.mark.parametrize("level", [1, 2])
def test_a_process_behind_hidepid(
    level: int, child: Callable[..., Any], as_nobody: Callable[..., Any]
) -> None:
    program = child(IDLE)
    with pytest.raises(MeasureError) as caught:
        as_nobody(lambda: process_facts(program.pid), lambda: _remount_proc(f"hidepid={level}"))
    if caught.type is MeasureError:
        pytest.skip(str(caught.value))
    assert caught.type is NotPermittedError
    assert caught.value.pid == program.pid
    assert "/proc is mounted with hidepid" in caught.value.hint
    assert "sudo" in caught.value.hint


def _remount_proc(options: str) -> None:
    """In a mount namespace of its own, so that nobody else sees it."""
    libc = ctypes.CDLL(None)
    new_mount_namespace, recursive_private = 0x20000, 0x44000
    failed = (
        libc.unshare(new_mount_namespace)
        or libc.mount(b"none", b"/", None, recursive_private, None)
        or libc.mount(b"proc", b"/proc", b"proc", 0, options.encode())
    )
    if failed:
        raise MeasureError("a mount namespace cannot be made here")


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(MeasureError, match="this is darwin") as caught:
        process_facts(os.getpid())
    assert "WSL" in caught.value.hint


def test_a_system_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(proc, "PROC", str(tmp_path))
    with pytest.raises(MeasureError, match="is not mounted"):
        process_facts(os.getpid())
    with pytest.raises(MeasureError, match="is not mounted"):
        read_bytes(os.getpid(), "smaps")


def test_a_file_that_this_kernel_lacks() -> None:
    with pytest.raises(MeasureError, match="this kernel has no /proc") as caught:
        read_bytes(os.getpid(), "smaps_of_tomorrow")
    assert not isinstance(caught.value, ProcessGoneError)


def test_a_32_bit_program(tmp_path: Path) -> None:
    program = tmp_path / "pause32"
    program.write_bytes(_pause_for_i386())
    program.chmod(0o755)
    try:
        process = subprocess.Popen([str(program)])
    except OSError:
        pytest.skip("this kernel does not run 32-bit x86 programs")
    with process:
        facts = process_facts(process.pid)
        process.kill()
    if process.returncode != -9:
        pytest.skip("this kernel does not run 32-bit x86 programs")
    assert facts.bits == 32
    assert facts.kind is ProcessKind.OTHER


def _pause_for_i386() -> bytes:
    """A whole ELF32 executable that calls pause(2) for ever."""
    code = b"\xb8\x1d\x00\x00\x00\xcd\x80\xeb\xf7"  # mov eax, 29; int 0x80; jmp back
    base, header_bytes = 0x08048000, 52 + 32
    size = header_bytes + len(code)
    identity = b"\x7fELF\x01\x01\x01" + bytes(9)
    header = struct.pack(
        "<HHIIIIIHHHHHH", 2, 3, 1, base + header_bytes, 52, 0, 0, 52, 32, 1, 0, 0, 0
    )
    segment = struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 0x1000)
    return identity + header + segment + code
