"""Thresholds are looked up where they decide, so that a changed one takes effect."""

import re
from pathlib import Path

import pytest

from ramledger.diagnose import thresholds
from tests.corpus.sensitivity import Change, changed, names

DIAGNOSE = Path(thresholds.__file__).parent
SOURCES = {
    path.name: path.read_text(encoding="utf-8")
    for path in DIAGNOSE.glob("*.py")
    if path.name != "thresholds.py"
}


def test_every_threshold_decides_something() -> None:
    used = {name for text in SOURCES.values() for name in re.findall(r"thresholds\.(\w+)", text)}
    assert used == set(names())


def test_none_is_copied_when_modules_are_imported() -> None:
    early = re.compile(r"^(from ramledger\.diagnose\.thresholds |\w+\b.*=.*\bthresholds\.)", re.M)
    assert [name for name, text in SOURCES.items() if early.search(text)] == []


@pytest.mark.parametrize(
    ("name", "times", "value"),
    [("FEWEST_POINTS", 0.7, 4), ("NO_RISE", 1.4, 0.028), ("NEARLY_ALL", 1.4, 0.99)],
)
def test_a_changed_threshold_is_set_and_restored(name: str, times: float, value: float) -> None:
    before = getattr(thresholds, name)
    with pytest.raises(ZeroDivisionError), changed(name, times):
        assert getattr(thresholds, name) == pytest.approx(value)
        raise ZeroDivisionError
    assert getattr(thresholds, name) == before


def test_a_change_says_what_it_does() -> None:
    assert [str(Change(*counts)) for counts in ((0, 0), (2, 0), (1, 3))] == [
        "none", "2 worse", "1 worse, 3 better",
    ]  # fmt: skip
