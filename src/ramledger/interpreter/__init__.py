"""CPython's objects, types, frames and modules, read without running the program's code."""
