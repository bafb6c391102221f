"""The table of releases that leak."""

import pytest

from ramledger.diagnose.known_versions import known_in, known_leaks
from ramledger.diagnose.verdict import diagnose
from tests.support.made_up_recordings import generations, recording, snapshot


@pytest.mark.parametrize(
    ("version", "is_bad"),
    [
        ("1.15.4", False), ("1.16", True), ("1.16.0", True), ("1.16.1", False), ("2.3.5", False),
        ("2.4.0", True), ("2.4.1", True), ("2.4.2", False), ("2.4.0rc1", True), ("nonsense", False),
    ],
)  # fmt: skip
def test_releases_of_numpy(version: str, is_bad: bool) -> None:
    assert bool(known_in({"numpy": version}, "native-leak")) == is_bad


def test_every_row_has_a_link_and_causes() -> None:
    assert len(known_leaks()) >= 3
    for leak in known_leaks():
        assert leak.link.startswith("https://github.com/")
        assert leak.causes
        assert leak.concerns(leak.first)
        assert leak.concerns(leak.last)


def test_another_cause_is_not_blamed_on_a_release() -> None:
    assert not known_in({"numpy": "1.16.0"}, "graph-retention")


def test_a_bad_release_is_named_in_evidence_and_advice() -> None:
    growing = [snapshot(g, {"native/in use": 100 + 6 * g}, versions={"numpy": "1.16.0"})
               for g in (2, 6, 10, 13)]  # fmt: skip
    found = diagnose(recording(*generations([100 + 6 * i for i in range(14)]), *growing))
    leak = found.leaks[0]
    assert any("numpy/numpy/issues/12793" in line for line in leak.evidence)
    assert leak.advice.startswith("upgrade first: numpy 1.16.0")
