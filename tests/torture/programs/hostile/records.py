"""Uses our own API in every wrong place: in threads, forks, generators, and around odd classes."""

import os
import threading
import time

import ramledger

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
ledger = ramledger.record()


class Meta(type):
    def __eq__(cls, other):
        raise RuntimeError("no comparison")

    def __hash__(cls):
        raise RuntimeError("no hash")


kept = [type.__call__(Meta("Odd", (), {})) for _ in range(20)]


@ledger.on_pressure
def save():
    raise RuntimeError("cannot save")


def steps():
    with ledger.phase("generator"):
        yield 1
        yield 2


def work(number):
    with ledger.phase("thread", generation=number):
        time.sleep(0.01)


unfinished = []
number = 0
end = time.monotonic() + SECONDS
while time.monotonic() < end or number < 3:
    number += 1
    try:
        with ledger.phase("train", generation=number):
            unfinished.append(steps())
            next(unfinished[-1])
            raise KeyError("as it wanted")
    except KeyError as error:
        assert error.args == ("as it wanted",)
    threads = [threading.Thread(target=work, args=(number,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    child = os.fork()
    if child == 0:
        with ledger.phase("child", generation=-number):
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    for thread in threads:
        thread.join()
    if number % 5 == 1:
        statement = ledger.snapshot()
        total = sum(entry.resident_bytes for entry in statement.entries)
        assert total + statement.unexplained_bytes == statement.rss_bytes
print("OK")
