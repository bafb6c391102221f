"""Fifty threads that sleep: 400 MiB of stacks reserved, next to nothing touched."""

from holding import hold, open_ledger

ledger = open_ledger()

import threading  # noqa: E402

THREADS = 50


def main() -> None:
    wake = threading.Event()
    threads = [threading.Thread(target=wake.wait, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    if ledger is not None:
        ledger.claim("threads/objects", *threads)
    hold({"threads": THREADS + 1}, ledger)
    wake.set()


main()
