"""The CPU time that one snapshot may take; what is not read by then stays unexplained."""

import time

ASKED_SECONDS = 10.0  # for a snapshot that a user asked for


class Allowance:
    """So many seconds of CPU time of this thread, from now on."""

    def __init__(self, seconds: float = ASKED_SECONDS) -> None:
        self._until = time.thread_time() + seconds

    def is_spent(self) -> bool:
        return time.thread_time() >= self._until
