"""The allocators' own bookkeeping: glibc's malloc, CPython's, and others told apart."""
