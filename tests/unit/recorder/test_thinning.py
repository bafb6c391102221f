"""A recording stays small, and work beside a training keeps its share of the time."""

import pytest

from ramledger.recorder.thinning import Thinning
from ramledger.time_share import Governor


def test_thinning_is_bounded_and_keeps_extremes() -> None:
    thinning = Thinning(0.1)
    written = 0
    highest = 0
    for step in range(24 * 3600 * 2):
        level = 1000 if step == 100_001 else 10
        if thinning.keeps(step / 2, level):
            written += 1
            highest = max(highest, thinning.take_extremes()[1])
    assert 3_000 < written < 20_000
    assert highest == 1000


def test_the_governor_keeps_its_share() -> None:
    now = [0.0]
    governor = Governor(0.01, clock=lambda: now[0], credit=0.3)
    taken = 0
    for _ in range(1000):
        now[0] += 1.0
        if governor.allows():
            governor.spend(0.2)
            taken += 1
    assert governor.spent_seconds <= 0.01 * 1000 + 0.3
    assert taken == pytest.approx(51, abs=2)
