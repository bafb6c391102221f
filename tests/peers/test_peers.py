"""Side by side with other tools on one workload: who explains RSS, and who sees untouched pages."""

import sys

import numpy as np
import pytest

from ramledger.ledger import Statement
from tests.peers.peer_runs import PEERS, Said, ramledger, truth

pytestmark = pytest.mark.serial

SCALE = 0.25
WAYS = ("claimed", "bare")
SEE_THE_REPLAY = ("memray", "fil", "tracemalloc", "asizeof", "guppy", "muppy")


@pytest.fixture(scope="module", params=WAYS)
def ours(request: pytest.FixtureRequest) -> tuple[Said, Statement]:
    return ramledger(SCALE, request.param)


@pytest.fixture(scope="module")
def theirs() -> dict[str, Said]:
    return {name: run(SCALE) for name, run in PEERS.items()}


@pytest.mark.parametrize("peer", PEERS)
def test_more_of_rss_has_an_owner_than_any_peer_explains(
    ours: tuple[Said, Statement], theirs: dict[str, Said], peer: str
) -> None:
    assert ours[0].resident_fraction > theirs[peer].resident_fraction + 0.05


@pytest.mark.parametrize("peer", SEE_THE_REPLAY)
def test_peers_say_what_was_asked_for_not_what_is_resident(
    theirs: dict[str, Said], peer: str
) -> None:
    assert theirs[peer].replay_bytes >= truth(SCALE).replay_bytes


def test_a_half_filled_buffer_is_half_resident(ours: tuple[Said, Statement]) -> None:
    said, statement = ours
    true = truth(SCALE)
    (entry,) = (e for e in statement.entries if e.account.endswith("observations"))
    assert said.replay_bytes == pytest.approx(true.replay_resident_bytes, rel=0.01)
    assert entry.reserved_bytes == true.replay_bytes
    assert said.replay_bytes < true.replay_bytes * 0.6


def test_garbage_collector_tools_see_no_array(theirs: dict[str, Said]) -> None:
    assert theirs["objgraph"].replay_bytes == 0
    assert theirs["objgraph"].fraction < 0.1


def test_the_leak_has_an_owner_with_its_true_size(ours: tuple[Said, Statement]) -> None:
    info = {"step": 4_999, "reward": 4_999.0, "values": np.zeros(64)}
    leaked = sys.getsizeof(info) + sum(map(sys.getsizeof, info.values()))
    entry = ours[1].get("variables/rl_like.py:main.infos")
    assert entry is not None
    assert entry.resident_bytes == pytest.approx(5_000 * leaked, rel=0.1)
