"""Counts that a program expects, compared with what snapshots find."""

from ramledger.agent.expected_counts import ExpectedCounts, WrongCount


def test_a_wrong_count_is_reported_once_until_it_changes() -> None:
    expected = ExpectedCounts({"Env": 2})
    assert list(expected.wrong_in({"train.Env": 2})) == []
    assert list(expected.wrong_in({"train.Env": 3})) == [WrongCount("Env", 2, 3)]
    assert list(expected.wrong_in({"train.Env": 3})) == []
    assert list(expected.wrong_in({"train.Env": 4})) == [WrongCount("Env", 2, 4)]


def test_too_few_are_wrong_only_after_all_were_there() -> None:
    expected = ExpectedCounts({"Env": 2})
    assert list(expected.wrong_in({"train.Env": 1})) == []
    assert list(expected.wrong_in({"train.Env": 2})) == []
    assert list(expected.wrong_in({"train.Env": 1})) == [WrongCount("Env", 2, 1)]


def test_a_snapshot_that_counted_nothing_says_nothing() -> None:
    expected = ExpectedCounts({"Env": 0})
    assert list(expected.wrong_in({})) == []
    assert list(expected.wrong_in({"a.Env": 1, "b.Env": 1})) == [WrongCount("Env", 0, 2)]
