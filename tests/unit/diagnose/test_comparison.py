"""Two runs of a program: fixed, better, same or worse."""

import pytest

from ramledger.diagnose.comparison import Change, compare
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.verdict import diagnose
from tests.support.made_up_recordings import MIB, generations, recording, sample, snapshot

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


def test_an_owner_that_grows_otherwise_is_named_with_both_rates() -> None:
    def growing(rate: float) -> Diagnosis:
        levels = [100 + rate * g for g in range(20)]
        seen = [snapshot(g, {BUFFER: 20 + rate * g}) for g in range(20)]
        return diagnose(recording(*generations(levels), *seen))

    found = compare(growing(0.25), growing(0.0))
    (owner,) = [one for one in found.owners if one.account == BUFFER]
    assert owner.before_rate.bytes == pytest.approx(MIB / 4, rel=0.01)
    assert owner.before_rate.interval[0] > owner.after_rate.interval[1]
    assert (owner.after_rate.bytes, owner.after_rate.per) == (0.0, "generation")


def test_rates_of_other_units_are_not_compared() -> None:
    minutes = diagnose(recording(*(sample(float(t), {7: 100.0 + 2 * t}) for t in range(120))))
    found = compare(minutes, run(100, 6.0))
    assert found.change is Change.UNDECIDED
    assert "a minute before" in found.sentence
    assert "an iteration now" in found.sentence
