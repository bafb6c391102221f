"""Every error ramledger raises.

RamledgerError                 carries a one-line message and a hint: what to do next
├── ConfigError(ValueError)    input that cannot be understood or contradicts itself
├── OverBudgetError            something would exceed the memory it was given
├── MeasureError               the operating system did not answer
│   ├── ProcessGoneError       the process does not exist, or ended while it was read
│   └── NotPermittedError      the process may not be read by this user
├── RecordingError             a recording that cannot be read or written
└── CheckpointError            a checkpoint that is damaged, foreign or in the way
"""

from typing import Any


class RamledgerError(Exception):
    """Base class: `str(error)` is one line, `error.hint` says what to do next."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # keyword-only attributes survive pickling: errors are sent between processes
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(kind: type[RamledgerError], message: str, facts: dict[str, Any]) -> RamledgerError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(facts)
    return error


class ConfigError(RamledgerError, ValueError):
    """Input that cannot be understood, or options that contradict each other."""


class OverBudgetError(RamledgerError):
    """Something would need more memory than it was given."""

    def __init__(
        self, message: str, *, needed_bytes: int, limit_bytes: int, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.needed_bytes = needed_bytes
        self.limit_bytes = limit_bytes


class MeasureError(RamledgerError):
    """The operating system did not answer a question about a process."""

    def __init__(self, message: str, *, pid: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.pid = pid


class ProcessGoneError(MeasureError):
    """The process does not exist, or ended while it was being read."""


class NotPermittedError(MeasureError):
    """This user may not read that process."""


class RecordingError(RamledgerError):
    """A recording that cannot be read or written."""


class CheckpointError(RamledgerError):
    """A checkpoint that is damaged, foreign, or would be overwritten."""
