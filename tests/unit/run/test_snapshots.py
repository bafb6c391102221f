"""What changes from the baseline to the latest snapshot of a process."""

from dataclasses import replace

from ramledger.run.snapshots import ProcessSnapshots
from tests.support.made_up_recordings import snapshot

RUN = {"program.Env": 4}


def changes(*counts: dict[str, int], users: tuple[str, ...] = ()) -> dict[str, tuple[int, int]]:
    """Of snapshots at iterations 1, 2, 3, …, after one at the start."""
    counts_at_start = {"program.Env": 1, "lock": 2}
    start = replace(snapshot(0, {}, live_objects=counts_at_start), generation=None)
    found = ProcessSnapshots(start)
    found.add(start)
    for number, live in enumerate(counts, start=1):
        found.add(snapshot(number, {}, live_objects=live, user_classes=users))
    return {name: (before, after) for name, before, after in found.count_changes}


def test_the_start_is_no_growth() -> None:
    assert changes(RUN, RUN) == {"program.Env": (4, 4)}


def test_a_type_that_is_listed_late_may_have_been_there_before() -> None:
    assert changes(RUN, RUN | {"lock": 15}, RUN | {"lock": 15})["lock"] == (15, 15)
    assert changes(RUN, RUN | {"lock": 15}, RUN | {"lock": 18})["lock"] == (15, 18)


def test_classes_of_the_user_are_all_listed() -> None:
    users = ("program.Env", "program.Leak")
    found = changes(RUN, RUN | {"program.Leak": 3}, RUN | {"program.Leak": 9}, users=users)
    assert found["program.Leak"] == (0, 9)
