"""Work on a checkpoint that may run in a thread, be cancelled, and be waited for."""

import threading
from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

Result = TypeVar("Result")


class Job(ABC, Generic[Result]):
    """One piece of work, started once: by `run` here and now, or by `start` in a thread."""

    _thread_name = "ramledger-job"

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def run(self) -> Result:
        """Do it here and now, and keep the result for `wait`."""

    def start(self) -> Self:
        """Do it in a thread."""
        self._thread = threading.Thread(target=self._run_quietly, name=self._thread_name)
        self._thread.start()
        return self

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def cancel(self) -> None:
        """Stop as soon as possible; what is complete stays."""
        self._cancelled.set()

    def wait(self) -> Result:
        """Wait until it is done and durable; raises its error."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _run_quietly(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self._error = error
