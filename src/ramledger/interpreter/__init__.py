"""CPython's objects, types, frames and modules, read without running code of the program."""
