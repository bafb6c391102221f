"""RunState: what events make of it, that it stays small, and that nothing can break it."""

import json
import sys
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ramledger.event_codec import decode_header
from ramledger.event_version_1 import upgraded
from ramledger.ledger import Limit
from ramledger.recording import Recording, RecordingWriter
from ramledger.run.state import MAX_ACCOUNTS, MAX_LOOKS, MAX_PROCESSES, RunState
from tests.support.report_events import (
    HEADER,
    MIB,
    PID,
    generation,
    leaking_run,
    phase,
    process,
    sample,
    snapshot,
    statement,
)


def state_of(*events: dict[str, Any], header: dict[str, Any] = HEADER) -> RunState:
    state = RunState(header)
    for event in events:
        state.apply(event)
    assert state.malformed_events == 0
    return state


def test_a_leaking_run_in_numbers() -> None:
    state = state_of(*leaking_run(10))
    assert state.command == "python train.py --seed 3"
    assert state.limit == Limit(1024 * MIB, "--limit")
    assert state.main_pid == state.root_pid == PID
    assert state.growth_per_generation() == 16 * MIB
    assert state.peak_bytes == (260 + 30) * MIB
    assert state.tree.last == state.used.last == 290 * MIB
    assert [row.pid for row in state.alive] == [PID, PID + 1, PID + 2]
    assert state.now[0] == 9
    looks = state.main_looks
    assert looks is not None
    assert (looks.baseline.generation, looks.now.generation) == (0, 9)
    assert looks.accounts["variables/trainer.envs"].last == 200 * MIB
    assert [total.name for total in state.trend.phases(PID)] == ["evaluate", "train"]


def test_the_outlook_knows_the_limit_and_buffers_that_fill() -> None:
    outlook = state_of(*leaking_run(20)).outlook()
    assert outlook is not None
    assert outlook.seconds_left is not None
    # 4 MiB a second, from 450 to 1,024 MiB; the buffer that stands still takes nothing of it
    assert 0.8 * 143 <= outlook.seconds_left <= 1.2 * 143
    assert state_of(*leaking_run(3), header={}).outlook() is None


def test_a_recording_gives_the_same_state(tmp_path: Path) -> None:
    path = str(tmp_path / "run.ledger.jsonl")
    writer = RecordingWriter(path, decode_header(HEADER)[0])
    for event in leaking_run(5):
        writer.write_encoded(upgraded(event))
    writer.close()
    with open(path, "a") as file:
        file.write('{"event": "torn')
    state = RunState.from_recording(Recording.read(path))
    live = state_of(*leaking_run(5))
    assert state.tree.values == live.tree.values
    assert state.peak_bytes == live.peak_bytes
    assert state.trend.phases(PID) == live.trend.phases(PID)
    assert "torn" in state.notes[-1]


# ---- shared pages and limits ----------------------------------------------------------------


def test_pages_shared_by_the_tree_count_once_also_between_readings_of_pss() -> None:
    sizes = {PID: 300 * MIB, PID + 1: 200 * MIB}
    state = state_of(sample(0, sizes, tree_pss_bytes=320 * MIB))
    assert state.tree.last == 320 * MIB
    state.apply(sample(1, {PID: 340 * MIB, PID + 1: 200 * MIB}, high=560 * MIB))
    assert state.tree.last == 360 * MIB
    assert state.peak_bytes == 380 * MIB


def test_a_fork_is_no_peak_until_it_is_known_what_it_shares() -> None:
    state = state_of(sample(0, {PID: 300 * MIB}))
    many = {PID + n: 300 * MIB for n in range(4)}
    state.apply(sample(1, many))
    assert state.peak_bytes == 300 * MIB
    state.apply(sample(2, many, tree_pss_bytes=330 * MIB))
    assert state.peak_bytes == 330 * MIB
    state.apply(sample(3, {PID: 310 * MIB}))
    assert state.tree.last == 310 * MIB


def test_a_process_alone_is_its_rss_whatever_it_shares_with_strangers() -> None:
    state = state_of(sample(0, {PID: 300 * MIB}, tree_pss_bytes=200 * MIB))
    assert state.tree.last == state.peak_bytes == 300 * MIB


def test_processes_that_are_not_listed_are_counted() -> None:
    state = state_of(sample(0, {PID: 100 * MIB}, others=[20 * MIB, 2 * MIB, MIB, 0, 9]))
    assert state.tree.last == 123 * MIB


def test_what_counts_depends_on_the_limit() -> None:
    event = sample(0, {PID: 100 * MIB}, usage_bytes=700 * MIB) | {"available_bytes": 200 * MIB}
    used = {}
    for source in ("--limit", "cgroup memory.max of /x", "host RAM"):
        header = {"limit": {"bytes": 1000 * MIB, "source": source}}
        used[source] = state_of(event, header=header).used.last // MIB
    assert used == {"--limit": 100, "cgroup memory.max of /x": 700, "host RAM": 800}


# ---- looks ----------------------------------------------------------------------------------


def look(t: float, rss: int, **more: Any) -> dict[str, Any]:
    return snapshot(t, statement({"a": rss // 2}, rss_bytes=rss), **more)


def test_the_baseline_is_the_end_of_the_first_generation_or_what_is_named_so() -> None:
    events = [look(1, MIB), look(2, 3 * MIB, generation=0), look(3, 4 * MIB, generation=1)]
    state = state_of(*events)
    looks = state.main_looks
    assert looks is not None
    assert looks.baseline.statement.rss_bytes == 3 * MIB
    state.apply(look(4, 5 * MIB, label="baseline"))
    state.apply(look(5, 6 * MIB, generation=2))
    assert looks.baseline.statement.rss_bytes == 5 * MIB
    assert [item.label for item in state.trend.labels] == ["baseline"]


def test_the_look_at_exit_counts_only_where_there_is_no_better_one() -> None:
    end = look(9, 9 * MIB, phase="end", label="end", generation=3)
    with_generations = state_of(look(2, 3 * MIB, generation=0), end).main_looks
    without = state_of(look(1, MIB), end).main_looks
    assert with_generations is not None
    assert without is not None
    assert with_generations.now.statement.rss_bytes == 3 * MIB
    assert (without.baseline.t, without.now.t) == (1, 9)


def test_the_largest_look_is_kept_as_the_peak() -> None:
    sizes = (5, 9, 7)
    looks = state_of(
        *(look(n, size * MIB, generation=n) for n, size in enumerate(sizes))
    ).main_looks
    assert looks is not None
    assert looks.peak is not None
    assert looks.previous is not None
    peak, previous, now = looks.peak, looks.previous, looks.now
    assert [x.statement.rss_bytes // MIB for x in (peak, previous, now)] == [9, 9, 7]


def test_an_account_that_is_gone_reads_zero() -> None:
    first = snapshot(0, statement({"a": MIB, "b": 2 * MIB}, rss_bytes=4 * MIB))
    second = snapshot(1, statement({"b": 3 * MIB}, rss_bytes=4 * MIB))
    looks = state_of(first, second).main_looks
    assert looks is not None
    assert looks.accounts["a"].values == [MIB, 0]
    assert looks.accounts["b"].values == [2 * MIB, 3 * MIB]
    assert looks.accounts["unexplained"].values == [MIB, MIB]


def test_the_training_process_is_the_one_with_generations() -> None:
    state = state_of(
        process(1000, "sh run.sh"),
        process(1001, "python train.py", 1000),
        snapshot(0, statement({"a": MIB}, rss_bytes=900 * MIB, pid=1002)),
        generation(1, 0, 50 * MIB, pid=1001),
    )
    assert (state.root_pid, state.main_pid) == (1000, 1001)


def test_the_phase_running_now_is_shown_where_it_is_told() -> None:
    state = state_of(generation(1, 4, MIB))
    assert state.now == (4, "")
    state.apply({"event": "now", "t": 2, "pid": PID, "generation": 5, "phase": "train"})
    assert state.now == (5, "train")


# ---- bounds and bad input -------------------------------------------------------------------


def total_bytes(state: RunState) -> int:
    """Size of everything a state holds, found by walking its attributes."""
    seen: set[int] = set()
    pending: list[Any] = [state]
    total = 0
    while pending:
        item = pending.pop()
        if id(item) in seen or isinstance(item, type):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        if isinstance(item, dict):
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset) or type(item).__name__ == "deque":
            pending += list(item)
        pending += list(getattr(item, "__dict__", {}).values())
        names = getattr(type(item), "__slots__", ())
        pending += [getattr(item, name) for name in names if hasattr(item, name)]
    return total


def test_a_long_wild_run_takes_bounded_memory() -> None:
    state = RunState(HEADER)

    def feed(begin: int, end: int) -> None:
        for n in range(begin, end):
            pid = PID + n % 2500
            state.apply(process(pid, f"python worker {n}" * 20))
            state.apply(sample(n, {pid: n * MIB % 977}))
            state.apply({"event": "process-end", "t": n, "pid": pid})
            state.apply(phase(n, n, f"phase {n}", n, n + 1) | {"pid": PID + n % 20})
            state.apply(generation(n, n, n * MIB, pid=PID + n % 20))
            state.apply({"event": "note", "t": n, "text": f"note {n}" * 20})
            functions = {"event": "functions", "t": n, "growth_bytes": {f"f{n}": n}, "pid": pid}
            state.apply(functions)
            if n % 10 == 0:
                accounts = {f"a{n + k}": MIB for k in range(40)}
                document = statement(accounts, rss_bytes=100 * MIB, pid=PID + n // 10 % 3)
                state.apply(snapshot(n, document))

    feed(0, 5_000)
    early = total_bytes(state)
    feed(5_000, 9_000)
    assert total_bytes(state) < 1.5 * early  # thinning goes up and down
    assert early < 4 * MIB
    assert len(state.processes) <= MAX_PROCESSES
    assert all(len(looks.accounts) <= MAX_ACCOUNTS for looks in state.looks.values())


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = [
    "process", "process-end", "sample", "phase", "generation", "snapshot", "functions", "now",
    "expectation", "pressure", "note", "probe", "end", "unknown",
]  # fmt: skip
FIELDS = [
    "t", "pid", "parent", "command", "processes", "others", "high", "tree_pss_bytes", "name",
    "generation", "before_bytes", "after_bytes", "rss_bytes", "statement", "counts", "containers",
    "growth_bytes", "found", "expected", "type", "usage_bytes", "limit_bytes", "text", "loop",
    "peak_bytes",
]  # fmt: skip


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), JUNK))
def test_no_event_breaks_it(kind: str, fields: dict[str, Any]) -> None:
    state = state_of(*leaking_run(1))
    state.apply({**fields, "event": kind})
    state.apply(sample(9e9, {PID: 5 * MIB}))
    assert state.tree.last >= 0
    assert json.dumps(state.tree.times)


def test_malformed_events_are_counted_and_unknown_ones_are_not() -> None:
    state = RunState()
    state.apply({"event": "sample", "t": 1, "processes": {"x": [1]}})
    state.apply({"event": "generation", "t": float("inf"), "pid": 1, "generation": 1})
    state.apply({"event": "pressure", "t": 1, "usage_bytes": 10**400, "limit_bytes": 1})
    state.apply({"event": "tea time", "t": 1})
    assert state.malformed_events == 3
    assert RunState({"limit": {"bytes": "many"}}).limit is None
    assert RunState({"limit": [1]}).limit is None


def test_of_very_many_processes_the_largest_looks_are_kept() -> None:
    state = RunState(HEADER)
    for n in range(200):
        document = statement({"a": MIB}, rss_bytes=(n * 37 % 200 + 1) * MIB, pid=PID + n)
        state.apply(snapshot(n, document))
    sizes = sorted(looks.now.statement.rss_bytes // MIB for looks in state.looks.values())
    assert len(sizes) == MAX_LOOKS
    assert sizes[-10:] == list(range(191, 201))
