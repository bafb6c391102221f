"""A forked child can use the ledger, whatever the parent's other threads were doing."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, threading
import ramledger

ledger = ramledger.record()
is_over = threading.Event()

def use():
    {use}

def again_and_again():
    while not is_over.is_set():
        use()

def in_a_child():
    signal.alarm(20)  # a child that hangs is ended by it
    use()
    os._exit(3)

for _ in range(4):
    threading.Thread(target=again_and_again).start()
codes = set()
for _ in range(60):
    child = os.fork()
    if child == 0:
        in_a_child()
    codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if codes != {{3}}:
        break
is_over.set()
print(codes)
"""
USES = {
    "phases": "with ledger.phase('train'): pass",
    "claims": "ledger.claim('held', use)",
}


@pytest.mark.parametrize("use", USES)
def test_children_of_a_program_with_threads_do_not_hang(use: str) -> None:
    code = PROGRAM.format(use=USES[use])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert (done.stdout, done.stderr) == ("{3}\n", "")


HELD = """
import os
from ramledger.fork_lock import ForkLock

lock = ForkLock()
with lock, lock:
    child = os.fork()
    if child == 0:
        pass
with lock:
    pass
if child == 0:
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_thread_that_forks_while_it_holds_the_lock_holds_it_in_both() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("3\n", "")
