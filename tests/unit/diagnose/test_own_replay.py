"""Rows and advice for replay buffers of the user's own, from what a recording says of them."""

from typing import Any

import pytest

from ramledger.diagnose.advice import advise
from ramledger.diagnose.own_replay import own_replays, with_replay_rows
from ramledger.ledger import Entry, LargeObject, Source, Statement

MIB = 1 << 20


def field(name: str, kind: str, shape: tuple[int, ...] = (), dtype: str = "", size: int = 8) -> Any:
    return {
        "name": name, "kind": kind, "shape": list(shape), "dtype": dtype, "bytes": size,
        "is_whole": True,
    }  # fmt: skip


def fact(shape: tuple[int, ...] = (200,), dtype: str = "float32", **changes: Any) -> dict[str, Any]:
    size = {"float32": 4, "float64": 8, "uint8": 1}[dtype]
    for side in shape:
        size *= side
    content = {
        "element": "tuple",
        "fields": [
            field("0", "observation", shape, dtype, size), field("1", "whole number"),
            field("2", "number"), field("3", "next observation", shape, dtype, size),
            field("4", "flag", size=1),
        ],
        "stored_twice": 1.0, "breaks": 0.0, "moved_rows": 0, "axis": 0, "fits_bytes": False,
    }  # fmt: skip
    content |= {name: changes.pop(name) for name in list(changes) if name in content}
    return {
        "path": "Agent.memory", "accounts": ["variables/Agent.memory"], "length": 20_000,
        "capacity": 50_000, "bytes": 20_000 * (2 * size + 200), "content": content,
        "made_in": {"": "dqn.py:8 in Agent.__init__: self.memory = deque(maxlen=50_000)"},
        "added_in": {"": "dqn.py:12 in Agent.keep: self.memory.append((s, a, r, s2, end))"},
        "drawn_in": {"": "dqn.py:15 in Agent.learn: batch = random.sample(self.memory, 64)"},
    } | changes  # fmt: skip


def statement(*facts: Any, **changes: Any) -> Statement:
    return Statement(
        pid=1, command="python dqn.py", at=0.0, inside=True, rss_bytes=400 * MIB,
        entries=(Entry("variables/Agent.memory", 300 * MIB, 300 * MIB, Source.PATH),),
        facts={"replays": list(facts)}, **changes,
    )  # fmt: skip


def test_its_row_is_called_replay_and_says_how_full_it_is() -> None:
    (entry,) = with_replay_rows(statement(fact())).entries
    assert (entry.account, entry.fill) == ("replay/Agent.memory", 0.4)
    (entry,) = with_replay_rows(statement(fact(capacity=None))).entries
    assert (entry.account, entry.fill) == ("replay/Agent.memory", None)
    plain = statement()
    assert with_replay_rows(plain) is plain


def test_each_line_is_in_the_users_names() -> None:
    (advice,) = advise(statement(fact()))
    assert advice.title == "store each observation of Agent.memory once"
    assert "20,000 of 50,000 transitions" in advice.why
    assert advice.do[0] == "from ramledger import replay"
    assert advice.do[1] == (
        "dqn.py:8: self.memory = deque(maxlen=50_000) → self.memory = replay.ReplayBuffer("
        'replay.Schema(replay.Field((200,)), action=replay.Field((), "int64")), capacity=50_000)'
    )
    assert advice.do[2] == (
        "dqn.py:12: self.memory.append((s, a, r, s2, end)) → self.memory.add(s, a, r, s2, end)"
    )
    assert advice.do[3].startswith("dqn.py:15: batch = random.sample(self.memory, 64) → batch = ")
    assert advice.apply == ""


def test_windows_are_kept_as_rows_or_as_positions_in_their_table() -> None:
    table = LargeObject(
        "dqn.py:DATA", "variables/dqn.py:DATA", "numpy.ndarray", 90 * MIB, 90 * MIB, "float32",
        (20_000, 108, 5),
    )  # fmt: skip
    found = fact((60, 108, 5), moved_rows=1, length=2_000)
    (advice,) = advise(statement(found, large_objects=(table,)))
    assert 'replay.Frames((108, 5), "float32", 60)' in advice.do[1]
    assert "share all but one row" in advice.why
    assert 'replay.TableWindow("data", 60)' in advice.do[-1]
    assert 'tables={"data": DATA}' in advice.do[-1]


def test_what_is_stored_once_and_narrow_needs_no_advice() -> None:
    assert advise(statement(fact(stored_twice=0.0))) == []
    (advice,) = advise(statement(fact(dtype="float64", stored_twice=0.0)))
    assert advice.title == "float32 instead of float64 in Agent.memory"


def test_images_as_floats() -> None:
    images = fact((1, 4, 84, 84), moved_rows=1, fits_bytes=True, length=1_000)
    (advice,) = advise(statement(images))
    assert 'replay.Frames((84, 84), "uint8", 4)' in advice.do[1]
    assert advice.do[2].endswith("self.memory.add(np.uint8(s[0]), a, r, np.uint8(s2[0]), end)")


def test_arrays_are_replaced_together() -> None:
    names = {
        "state": "s",
        "action": "a",
        "next_state": "s2",
        "reward": "r",
        "not_done": "1.0 - done",
    }
    kinds = ["observation", "array", "next observation", "array", "array"]
    shapes = [(111,), (8,), (111,), (1,), (1,)]
    fields = [
        field(name, kind, shape, "float64", 8 * shape[0])
        for name, kind, shape in zip(names, kinds, shapes, strict=True)
    ]
    found = fact(element="arrays", fields=fields, path="Memory", bytes=200 * MIB) | {
        "made_in": {"state": "td3.py:7 in Memory.__init__: self.state = np.zeros((size, 111))"},
        "added_in": {
            name: f"td3.py:{at} in Memory.add: self.{name}[self.ptr] = {text}"
            for at, (name, text) in enumerate(names.items(), 20)
        },
        "drawn_in": {},
    }
    (advice,) = advise(statement(found))
    assert advice.do[1] == (
        "td3.py:7: self.state = np.zeros((size, 111)) and its other arrays → self.buffer = "
        "replay.ReplayBuffer(replay.Schema(replay.Field((111,)), action=replay.Field((8,))), "
        "capacity=50_000)"
    )
    assert advice.do[2].endswith("→ self.buffer.add(s, a, r, s2, done)")


@pytest.mark.parametrize(
    "line", ["", "dqn.py:12", "dqn.py:12 in keep: self.memory.append((s, a, …", "x in y: def ("]
)
def test_lines_that_cannot_be_read_leave_plain_names(line: str) -> None:
    (advice,) = advise(statement(fact(added_in={"": line})))
    assert "self.memory.add(state, action, reward, next_state, done)" in advice.do[2]


@pytest.mark.parametrize(
    "odd",
    [
        None, 7, {}, {"content": 3}, fact(length=-1), fact(length=0), fact(bytes="x"),
        fact(shape=(0,)), fact(fields=[]), fact(fields=[field("0", "other")] * 3),
        fact(stored_twice="x"), fact() | {"made_in": 3},
    ],
)  # fmt: skip
def test_facts_of_strangers(odd: Any) -> None:
    assert own_replays(statement(odd)) == []
    assert advise(statement(odd)) == []
