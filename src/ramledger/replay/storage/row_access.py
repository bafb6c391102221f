"""Whom a store asks before rows change or are read: a save in progress, a load that is not done."""

from typing import Protocol

from ramledger.replay.storage.backing import Array


class OverwriteGuard(Protocol):
    """A save in progress: asked before anything that it has yet to write is overwritten."""

    def before_steps(self, begin: int, end: int) -> None: ...
    def before_rows(self, begin: int, end: int) -> None: ...


class RowLoader(Protocol):
    """Rows of a checkpoint that are read when they are first needed."""

    @property
    def is_done(self) -> bool: ...
    def need(self, group: str, first: Array, last: Array) -> None: ...
    def need_span(self, group: str, begin: int, end: int) -> None: ...
