"""Statistics of the allocators: glibc's malloc and CPython's; which malloc a process uses."""
