"""A small training that keeps every page of its journal; with --fixed only the last ones."""

import sys
import time


class Journal:
    """Pages of 200 kB."""

    def __init__(self) -> None:
        self.pages: list[bytearray] = []

    def log(self, page: bytearray) -> None:
        self.pages.append(page)
        if "--fixed" in sys.argv:
            del self.pages[:-2]


def main() -> None:
    journal = Journal()
    for generation in range(14):
        print("generation", generation, flush=True)
        for _ in range(10):
            journal.log(bytearray(b"x") * 200_000)
            time.sleep(0.02)
    if "--fails" in sys.argv:
        sys.exit(7)


main()
