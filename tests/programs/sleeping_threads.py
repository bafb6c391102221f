"""Fifty threads that sleep: 400 MiB of stacks reserved, next to nothing touched."""

from holding import hold, open_ledger

ledger = open_ledger()

import threading  # noqa: E402

THREADS = 50


def main() -> None:
    wake = threading.Event()
    all_run = threading.Barrier(THREADS + 1)

    def sleep() -> None:
        all_run.wait()
        wake.wait()

    threads = [threading.Thread(target=sleep, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    all_run.wait()  # a thread's stack is resident once it has run
    if ledger is not None:
        ledger.claim("threads/objects", *threads)
    hold({"threads": THREADS + 1}, ledger)
    wake.set()


main()
