"""A Counter of ours: our types are never counted among the program's."""

from collections import Counter
from typing import TypeVar

Key = TypeVar("Key")


class Tally(Counter[Key]):
    """Counts that are alive while the program's objects are counted."""
