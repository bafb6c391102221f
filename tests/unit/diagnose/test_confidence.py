"""How sure a finding is: by the cases of the corpus that were right."""

import pytest

from ramledger.diagnose import confidence
from ramledger.diagnose.confidence import confidence_in
from ramledger.diagnose.finding import Cause, Finding, Kind


@pytest.fixture(autouse=True)
def _counts(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"native-leak": (18, 18), "unknown guessed": (1, 8), "no leak": (98, 98)}
    monkeypatch.setattr(confidence, "_counts", lambda: counts)


def test_it_is_the_share_that_was_right() -> None:
    leak = Finding(Kind.LEAK, "", cause=Cause.NATIVE_LEAK)
    assert confidence_in(leak) == pytest.approx(19 / 20)
    guess = Finding(Kind.LEAK, "", cause=Cause.UNKNOWN, is_guess=True)
    assert confidence_in(guess) == pytest.approx(0.2)
    assert confidence_in(Finding(Kind.FILLING, "")) == pytest.approx(0.99)


def test_without_a_case_nobody_knows() -> None:
    assert confidence_in(Finding(Kind.LEAK, "", cause=Cause.GC_OFF)) == 0.5
