"""Owners have one name in all snapshots of a run."""

from ramledger.event_parts import ContainerContent, ViewPins
from ramledger.events import SnapshotEvent
from ramledger.run.aligned_snapshots import Snapshot, aligned
from tests.support.made_up_recordings import MIB, names_snapshot, snapshot

LOG = "variables/t.py:run.agent.log"
SEEN_AS = "variables/t.py:learn.self.log"


def read(*events: SnapshotEvent) -> list[Snapshot]:
    return aligned([Snapshot.of(event) for event in events])


def test_a_variable_seen_from_another_function_is_the_same() -> None:
    found = read(snapshot(0, {LOG: 1}), snapshot(4, {SEEN_AS: 5}), snapshot(8, {LOG: 9}))
    assert [s.resident(LOG) for s in found] == [1 * MIB, 5 * MIB, 9 * MIB]
    assert found[1].entries[LOG].account == LOG
    assert found[1].resident(SEEN_AS) == 0


def test_containers_and_views_follow_the_name_of_their_account() -> None:
    container = ContainerContent("t.py:learn.self.log[*]", account=f"{SEEN_AS}[0]")
    pins = {f"{SEEN_AS}[0]": ViewPins(bytes=9, of_bytes=10)}
    first = snapshot(4, {SEEN_AS: 5}, containers=(container,), pinned_by_views=pins)
    found = read(first, snapshot(8, {LOG: 9}))[0]
    assert [(c.path, c.account) for c in found.containers] == [("t.py:run.agent.log[*]", LOG)]
    assert found.pinned_by_views == {LOG: ViewPins(bytes=9, of_bytes=10)}


def test_a_buffer_is_the_same_beside_a_local_of_its_name() -> None:
    buffer = "variables/t.py:{}.patches"
    found = read(
        snapshot(0, {buffer.format("explore.replay"): (10, 80)}),
        snapshot(3, {buffer.format("sample.self"): (30, 80)}),
        snapshot(6, {buffer.format("train.replay"): (60, 80), buffer.format("train"): (2, 2)}),
        snapshot(9, {buffer.format("explore.replay"): (80, 80)}),
        snapshot(11, {buffer.format("train.replay"): (80, 80), buffer.format("train"): (2, 2)}),
    )
    resident = [s.resident(buffer.format("train.replay")) for s in found]
    assert resident == [10 * MIB, 30 * MIB, 60 * MIB, 80 * MIB, 80 * MIB]


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
