"""A Counter of ours: our types are never counted among the program's."""

from collections import Counter


class Tally(Counter[int]):
    """Counts by the id of a type, while the program's objects are counted."""
