"""What a store calls before it writes or reads rows: a save in progress, a lazy load."""

from typing import Protocol

from ramledger.replay.storage.backing import Array


class OverwriteGuard(Protocol):
    """A save in progress: called before the store overwrites data that is not saved yet."""

    def before_steps(self, begin: int, end: int) -> None: ...
    def before_rows(self, begin: int, end: int) -> None: ...


class RowLoader(Protocol):
    """A lazy load: reads rows of a checkpoint when they are first needed."""

    @property
    def is_done(self) -> bool: ...
    def need(self, group: str, first: Array, last: Array) -> None: ...
    def need_span(self, group: str, begin: int, end: int) -> None: ...
