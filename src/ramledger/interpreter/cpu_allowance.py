"""How much processor time one snapshot may take in all: what is left then stays unexplained."""

import time

ASKED_SECONDS = 10.0  # for a snapshot that somebody has asked for


class Allowance:
    """Processor time of this thread, from now on."""

    def __init__(self, seconds: float = ASKED_SECONDS) -> None:
        self._until = time.thread_time() + seconds

    def is_spent(self) -> bool:
        return time.thread_time() >= self._until
