"""What a walk looks at: of many containers with one name, one."""

import pytest

from ramledger.ledger import Source
from ramledger.objects.names.paths import Paths
from ramledger.objects.replays import replays_found
from ramledger.objects.replays.replays_found import ReplaysFound
from ramledger.objects.walk_queue import Place


def test_many_episodes_of_any_length_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(replays_found, "transition_content", lambda _, length: read.append(length))
    path = Paths().root("once.py:EPISODES").step("[*]")
    found = ReplaysFound()
    for length in (40, 500, 33, 2_000, 90):
        found.look([0] * length, length, Place(path, path.account, Source.PATH))
    assert read == [40]
