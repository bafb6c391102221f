"""Memory of a given size, every page of it touched, in pages of 4 KiB as the kernel gives them."""

import mmap
import sys

from holding import hold


def main() -> None:
    size = int(sys.argv[1])
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for start in range(0, size, mmap.PAGESIZE):
        memory[start] = 1
    hold({"bytes": len(memory)})


main()
