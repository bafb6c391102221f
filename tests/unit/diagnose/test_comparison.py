"""Two runs of a program: fixed, better, same or worse."""

import pytest

from ramledger.diagnose.comparison import Change, compare
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.verdict import diagnose
from tests.support.made_up_recordings import generations, recording, snapshot

BUFFER = "variables/Trainer.buffer"


def run(level: float, rate: float = 0.0, buffer: float = 20.0) -> Diagnosis:
    levels = [level + rate * g for g in range(20)]
    seen = [snapshot(g, {"imports/torch": level - buffer, BUFFER: buffer}) for g in (2, 6, 12, 18)]
    return diagnose(recording(*generations(levels), *seen))


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (run(100, 6.0), run(100), Change.FIXED),
        (run(100, 6.0), run(100, 2.0), Change.BETTER),
        (run(100, 6.0), run(100, 6.0), Change.SAME),
        (run(100, 2.0), run(100, 6.0), Change.WORSE),
        (run(100), run(100, 2.0), Change.WORSE),
        (run(1400), run(2600), Change.WORSE),
        (run(2600), run(1400), Change.BETTER),
        (run(1400), run(1403), Change.SAME),
    ],
)
def test_the_word(before: Diagnosis, after: Diagnosis, change: Change) -> None:
    assert compare(before, after).change is change


def test_the_owner_that_became_larger_is_named() -> None:
    found = compare(run(1400, buffer=300.0), run(2600, buffer=1500.0))
    assert found.owners[0].account == BUFFER
    assert "2.5 GiB" in found.sentence
