"""One snapshot as readers compare it."""

from ramledger.event_parts import ContainerContent, ViewPins
from ramledger.events import SnapshotEvent
from ramledger.run.one_snapshot import Snapshot
from tests.support.made_up_recordings import MIB, names_snapshot, snapshot

LOG = "variables/t.py:run.agent.log"


def read(*events: SnapshotEvent) -> list[Snapshot]:
    return [Snapshot.of(event) for event in events]


def test_containers_and_views_follow_the_name_of_their_account() -> None:
    container = ContainerContent("t.py:run.agent.log[*]", account=f"{LOG}[0]")
    pins = {f"{LOG}[0]": ViewPins(bytes=9, of_bytes=10)}
    found = read(snapshot(4, {LOG: 5}, containers=(container,), pinned_by_views=pins))[0]
    assert [c.account for c in found.containers] == [LOG]
    assert found.pinned_by_views == {LOG: ViewPins(bytes=9, of_bytes=10)}


def test_what_has_another_name_is_another_owner() -> None:
    other = "variables/t.py:learn.self.log"
    first, last = read(snapshot(0, {LOG: 1}), snapshot(4, {other: 5}))
    assert (first.resident(LOG), last.resident(LOG), last.resident(other)) == (MIB, 0, 5 * MIB)


def test_items_of_one_container_are_one_account() -> None:
    items = ({f"{LOG}[{i}]": (1, 2) for i in range(g + 1)} for g in (0, 4, 8))
    found = read(*(snapshot(g, accounts) for g, accounts in enumerate(items)))
    assert [s.resident(LOG) for s in found] == [1 * MIB, 5 * MIB, 9 * MIB]
    assert found[-1].entries[LOG].reserved_bytes == 18 * MIB


def test_a_collector_that_never_runs_counts_as_off() -> None:
    found = read(
        snapshot(0, {}),
        snapshot(1, {}, gc_threshold=0),
        snapshot(2, {}, gc_threshold=10**9),
        snapshot(3, {}, gc_enabled=False),
        snapshot(4, {}, gc_threshold=2000),
    )
    assert [s.collects for s in found] == [True, False, False, False, True]


def test_a_snapshot_by_name_has_accounts_and_containers_alone() -> None:
    container = ContainerContent("t.py:run.agent.log", account=LOG, length=3)
    found = Snapshot.of_names(names_snapshot(2, {LOG: 5}, containers=(container,)))
    assert (found.resident(LOG), found.containers) == (5 * MIB, (container,))
    assert not found.live_objects
