"""The process tree: real families, and a fake /proc for kernels that list children themselves."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ramledger.errors import ProcessGoneError
from ramledger.measure import proc
from ramledger.measure.tree import ProcessNode, descendants, process_tree
from tests.support.process_families import kill

FAMILY = """
def fork_holding(write_to, grandchildren):
    child = os.fork()
    if not child:
        for _ in range(grandchildren):
            fork_holding(write_to, 0)
        os.write(write_to, f"{os.getppid()} {os.getpid()}\\n".encode())
        os.read(waiting, 1)
        os._exit(0)
waiting, ending = os.pipe()
told, telling = os.pipe()
fork_holding(telling, 2)
fork_holding(telling, 0)
lines = b""
while lines.count(b"\\n") < 4:
    lines += os.read(told, 1000)
hold(pairs=[list(map(int, line.split())) for line in lines.decode().splitlines()])
"""


def family_of(pid: int, pairs: list[list[int]]) -> ProcessNode:
    children = sorted(child for parent, child in pairs if parent == pid)
    return ProcessNode(pid, tuple(family_of(child, pairs) for child in children))


@pytest.fixture
def family(child: Callable[..., Any]) -> Any:
    program = child(FAMILY)
    yield program
    kill(*(member for _, member in program.facts["pairs"]))


def test_children_and_grandchildren(family: Any) -> None:
    truth = family_of(family.pid, family.facts["pairs"])
    assert [len(node.children) for node in truth.children].count(2) == 1
    assert process_tree(family.pid) == truth
    found = descendants(family.pid)
    assert sorted(found) == sorted(member for _, member in family.facts["pairs"])
    order = {pid: place for place, pid in enumerate((family.pid, *found))}
    assert all(order[parent] < order[member] for parent, member in family.facts["pairs"])


def test_a_process_without_children(child: Callable[..., Any]) -> None:
    program = child("hold()")
    assert process_tree(program.pid) == ProcessNode(program.pid)
    assert descendants(program.pid) == ()


def test_a_child_that_a_thread_started() -> None:
    started: list[subprocess.Popen[bytes]] = []
    ready, done = threading.Event(), threading.Event()

    def start() -> None:
        started.append(subprocess.Popen(["sleep", "100"]))
        ready.set()
        done.wait()

    thread = threading.Thread(target=start)
    thread.start()
    ready.wait()
    try:
        assert started[0].pid in descendants(os.getpid())
    finally:
        done.set()
        thread.join()
        started[0].kill()
        started[0].wait()


def test_an_ended_child_is_seen_until_it_is_reaped(child: Callable[..., Any]) -> None:
    program = child("hold()")
    program.end(reap=False)
    assert program.pid in descendants(os.getpid())
    program.process.wait()
    assert program.pid not in descendants(os.getpid())


@pytest.mark.parametrize("pid", [0, -1, 2**40])
def test_a_pid_that_cannot_be(pid: int) -> None:
    with pytest.raises(ProcessGoneError):
        process_tree(pid)


def test_processes_that_come_and_go_meanwhile() -> None:
    """A shell that starts short-lived processes as fast as it can."""
    command = ["sh", "-c", "while :; do /bin/true; done"]
    with subprocess.Popen(command) as busy:
        try:
            for _ in range(100):
                node = process_tree(busy.pid)
                assert node.pid == busy.pid
                assert len(node.children) <= 1
        finally:
            busy.kill()


class TestKernelsThatListChildren:
    """CONFIG_PROC_CHILDREN: each thread has a file with the children it started."""

    @pytest.fixture(autouse=True)
    def fake_proc(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(proc, "PROC", str(tmp_path))
        self.root = tmp_path
        self.add(os.getpid(), {os.getpid(): ""})
        (tmp_path / "self").symlink_to(str(os.getpid()))

    def add(self, pid: int, children: dict[int, str]) -> None:
        for thread, names in children.items():
            folder = self.root / str(pid) / "task" / str(thread)
            folder.mkdir(parents=True)
            (folder / "children").write_text(names)
        stat = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2]
        (self.root / str(pid) / "stat").write_text(f"{pid} (python){stat}")

    def test_children_of_all_threads(self) -> None:
        self.add(10, {10: "11 12 ", 15: "13 "})
        self.add(11, {11: ""})
        self.add(12, {12: "14 "})
        self.add(13, {13: ""})
        self.add(14, {14: ""})
        leaves = (ProcessNode(11), ProcessNode(12, (ProcessNode(14),)), ProcessNode(13))
        assert process_tree(10) == ProcessNode(10, leaves)
        assert descendants(10) == (11, 12, 13, 14)

    def test_a_child_that_is_gone_already(self) -> None:
        self.add(10, {10: "11 12 "})
        self.add(12, {12: ""})
        assert 12 in descendants(10)

    def test_a_pid_that_was_used_again(self) -> None:
        self.add(10, {10: "11 "})
        self.add(11, {11: "12 "})
        self.add(12, {12: "10 11 "})
        assert descendants(10) == (11, 12)


def test_a_deep_family() -> None:
    """Processes that start one another, deeper than a wrapper script ever goes."""
    depth = 40
    code = (
        "import os, sys\n"
        f"for _ in range({depth}):\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        os.waitpid(child, 0)\n"
        "        os._exit(0)\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        assert len(descendants(process.pid)) == depth
        process.stdin.close()
