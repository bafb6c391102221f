"""A replay ring of frames in np.zeros, half filled: resident is half of reserved."""

from holding import hold, open_ledger, place_of

ledger = open_ledger()

import numpy as np  # noqa: E402

CAPACITY = 40_000
FILLED = CAPACITY // 2


class Replay:
    """A plain ring: observations are written in order, the rest stays untouched."""

    def __init__(self, capacity: int) -> None:
        self.observations = np.zeros((capacity, 64, 64), np.uint8)
        self.rewards = np.zeros(capacity, np.float32)
        self.pos = 0
        self.full = False
        self.buffer_size = capacity

    def add(self, observation: np.ndarray, reward: float) -> None:
        self.observations[self.pos] = observation
        self.rewards[self.pos] = reward
        self.pos += 1


def main() -> None:
    replay = Replay(CAPACITY)
    frame = np.arange(64 * 64, dtype=np.uint8).reshape(64, 64) | 1
    for step in range(FILLED):
        replay.add(frame, float(step))
    if ledger is not None:
        ledger.claim("replay", replay)
    truth = {
        "arrays": {"observations": place_of(replay.observations)},
        "fill": FILLED / CAPACITY,
        "written_bytes": FILLED * 64 * 64,
    }
    hold(truth, ledger)


main()
