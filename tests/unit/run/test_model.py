"""Run: what events make of it, and that it stays small."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ramledger.event_parts import ProcessMemory
from ramledger.events import (
    AllocatorsEvent,
    CurrentPhaseEvent,
    FunctionGrowthEvent,
    GenerationEvent,
    Header,
    NamesSnapshotEvent,
    NoteEvent,
    PhaseEvent,
    SampleEvent,
    SnapshotEvent,
)
from ramledger.ledger import Limit
from ramledger.recording import Recording
from ramledger.run.history import LIVE, Bounds
from ramledger.run.model import Run
from ramledger.run.processes import MAX_PROCESSES
from ramledger.run.snapshots import MAX_ACCOUNTS
from ramledger.run.snapshots import MAX_PROCESSES as MAX_WITH_SNAPSHOTS
from tests.support.report_events import (
    HEADER,
    MIB,
    PID,
    generation,
    leaking_run,
    lines_of,
    phase,
    process,
    process_end,
    run_of,
    sample,
    snapshot,
    statement,
)


def test_a_leaking_run_in_numbers() -> None:
    run = run_of(*leaking_run(10))
    assert run.command == "python train.py --seed 3"
    assert run.limit == Limit(1024 * MIB, "--limit")
    assert run.main_pid == run.processes.root_pid == PID
    assert run.growth_per_iteration() == 16 * MIB
    assert run.peak_bytes == (260 + 30) * MIB
    assert run.tree.last == run.used.last == 290 * MIB
    assert [row.pid for row in run.alive] == [PID, PID + 1, PID + 2]
    assert run.now[0] == 9
    found = run.main_snapshots
    assert found is not None
    assert (found.baseline.generation, found.now.generation) == (0, 9)
    assert found.accounts["variables/trainer.envs"].last == 200 * MIB
    assert [total.name for total in run.iterations.phases(PID)] == ["evaluate", "train"]


def test_a_recording_gives_the_same_state(tmp_path: Path) -> None:
    path = str(tmp_path / "run.ledger.jsonl")
    with open(path, "w") as file:
        file.write(lines_of(leaking_run(5)) + '{"event": "torn')
    run = Run.from_recording(Recording.read(path))
    live = run_of(*leaking_run(5))
    assert run.tree.values == live.tree.values
    assert run.peak_bytes == live.peak_bytes
    assert run.iterations.phases(PID) == live.iterations.phases(PID)
    assert "torn" in run.notes[-1]


# ---- shared pages and limits ----------------------------------------------------------------


def test_pages_shared_by_the_tree_count_once_also_between_readings_of_pss() -> None:
    sizes = {PID: 300 * MIB, PID + 1: 200 * MIB}
    run = run_of(sample(0, sizes, tree_pss_bytes=320 * MIB))
    assert run.tree.last == 320 * MIB
    run.take(sample(1, {PID: 340 * MIB, PID + 1: 200 * MIB}, high_bytes=560 * MIB))
    assert run.tree.last == 360 * MIB
    assert run.peak_bytes == 380 * MIB


def test_a_fork_is_no_peak_until_it_is_known_what_it_shares() -> None:
    run = run_of(sample(0, {PID: 300 * MIB}))
    many = {PID + n: 300 * MIB for n in range(4)}
    run.take(sample(1, many))
    assert run.peak_bytes == 300 * MIB
    run.take(sample(2, many, tree_pss_bytes=330 * MIB))
    assert run.peak_bytes == 330 * MIB
    run.take(sample(3, {PID: 310 * MIB}))
    assert run.tree.last == 310 * MIB


def test_a_process_alone_is_its_rss_whatever_it_shares_with_strangers() -> None:
    run = run_of(sample(0, {PID: 300 * MIB}, tree_pss_bytes=200 * MIB))
    assert run.tree.last == run.peak_bytes == 300 * MIB


def test_processes_that_are_not_listed_are_counted() -> None:
    others = ProcessMemory(20 * MIB, 2 * MIB, MIB, 0, 9)
    run = run_of(sample(0, {PID: 100 * MIB}, other_processes=others))
    assert run.tree.last == 123 * MIB


def test_what_counts_depends_on_the_limit() -> None:
    event = sample(0, {PID: 100 * MIB}, cgroup_bytes=700 * MIB, available_bytes=200 * MIB)
    used = {}
    for source in ("--limit", "cgroup memory.max of /x", "host RAM"):
        header = Header(limit=Limit(1000 * MIB, source))
        used[source] = run_of(event, header=header).used.last // MIB
    assert used == {"--limit": 100, "cgroup memory.max of /x": 700, "host RAM": 800}


# ---- snapshots ------------------------------------------------------------------------------


def taken(t: float, rss: int, **more: Any) -> SnapshotEvent:
    return snapshot(t, statement({"a": rss // 2}, rss_bytes=rss), **more)


def test_the_baseline_is_the_end_of_the_first_generation_or_what_is_named_so() -> None:
    events = [taken(1, MIB), taken(2, 3 * MIB, generation=0), taken(3, 4 * MIB, generation=1)]
    run = run_of(*events)
    found = run.main_snapshots
    assert found is not None
    assert found.baseline.statement.rss_bytes == 3 * MIB
    run.take(taken(4, 5 * MIB, label="baseline"))
    run.take(taken(5, 6 * MIB, generation=2))
    assert found.baseline.statement.rss_bytes == 5 * MIB
    assert [item.label for item in run.iterations.labels] == ["baseline"]


def test_the_snapshot_at_exit_counts_only_where_there_is_no_better_one() -> None:
    end = taken(9, 9 * MIB, phase="end", label="end", generation=3)
    with_generations = run_of(taken(2, 3 * MIB, generation=0), end).main_snapshots
    without = run_of(taken(1, MIB), end).main_snapshots
    assert with_generations is not None
    assert without is not None
    assert with_generations.now.statement.rss_bytes == 3 * MIB
    assert (without.baseline.t, without.now.t) == (1, 9)


def test_the_largest_snapshot_is_kept_as_the_peak() -> None:
    sizes = (5, 9, 7)
    found = run_of(
        *(taken(n, size * MIB, generation=n) for n, size in enumerate(sizes))
    ).main_snapshots
    assert found is not None
    assert found.peak is not None
    assert [x.statement.rss_bytes // MIB for x in (found.peak, found.now)] == [9, 7]


def test_an_account_that_is_gone_reads_zero() -> None:
    first = snapshot(0, statement({"a": MIB, "b": 2 * MIB}, rss_bytes=4 * MIB))
    second = snapshot(1, statement({"b": 3 * MIB}, rss_bytes=4 * MIB))
    found = run_of(first, second).main_snapshots
    assert found is not None
    assert found.accounts["a"].values == [MIB, 0]
    assert found.accounts["b"].values == [2 * MIB, 3 * MIB]
    assert found.accounts["unexplained"].values == [MIB, MIB]


def test_the_training_process_is_the_one_with_generations() -> None:
    run = run_of(
        process(1000, "sh run.sh"),
        process(1001, "python train.py", 1000),
        snapshot(0, statement({"a": MIB}, rss_bytes=900 * MIB, pid=1002)),
        generation(1, 0, 50 * MIB, pid=1001),
    )
    assert (run.processes.root_pid, run.main_pid) == (1000, 1001)


def test_the_phase_running_now_is_shown_where_it_is_told() -> None:
    run = run_of(generation(1, 4, MIB))
    assert run.now == (4, "")
    run.take(CurrentPhaseEvent(t=2, pid=PID, generation=5, phase="train"))
    assert run.now == (5, "train")


def test_no_phase_was_higher_than_the_run() -> None:
    """Samples miss what is short; a phase knows its own peak."""
    run = run_of(sample(0, {PID: 50 * MIB}), phase(1, 3, "learn", 50 * MIB, 52 * MIB))
    assert (run.peak_bytes, run.peak_where) == (60 * MIB, (3, "learn"))
    run.take(sample(2, {PID: 55 * MIB}))
    assert run.peak_bytes == max(total.peak_bytes for total in run.iterations.phases(PID))


# ---- bounds and bad input -------------------------------------------------------------------


def total_bytes(run: Run) -> int:
    """Size of everything a run holds, found by walking its attributes."""
    seen: set[int] = set()
    pending: list[Any] = [run]
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
        for kind in type(item).__mro__:
            names = getattr(kind, "__slots__", ())
            pending += [getattr(item, name) for name in names if hasattr(item, name)]
    return total


def test_a_long_wild_run_takes_bounded_memory() -> None:
    run = Run(HEADER)

    def feed(begin: int, end: int) -> None:
        for n in range(begin, end):
            pid = PID + n % 2500
            run.take(process(pid, f"python worker {n}" * 20))
            run.take(sample(n, {pid: n * MIB % 977}))
            run.take(process_end(n, pid))
            run.take(replace(phase(n, n, f"phase {n}", n, n + 1), pid=PID + n % 20))
            run.take(generation(n, n, n * MIB, pid=PID + n % 20))
            run.take(NoteEvent(t=n, text=f"note {n}" * 20))
            run.take(FunctionGrowthEvent(t=n, growth_bytes={f"f{n}": n}, pid=pid))
            if n % 10 == 0:
                accounts = {f"a{n + k}": MIB for k in range(40)}
                document = statement(accounts, rss_bytes=100 * MIB, pid=PID + n // 10 % 3)
                run.take(snapshot(n, document))

    feed(0, 5_000)
    early = total_bytes(run)
    feed(5_000, 9_000)
    assert total_bytes(run) < 1.5 * early  # thinning goes up and down
    assert early < 4 * MIB
    assert len(run.processes.rows) <= MAX_PROCESSES
    assert all(len(found.accounts) <= MAX_ACCOUNTS for found in run.snapshots.by_pid.values())


def test_of_very_many_processes_the_largest_snapshots_are_kept() -> None:
    run = Run(HEADER)
    for n in range(200):
        document = statement({"a": MIB}, rss_bytes=(n * 37 % 200 + 1) * MIB, pid=PID + n)
        run.take(snapshot(n, document))
    by_pid = run.snapshots.by_pid
    sizes = sorted(found.now.statement.rss_bytes // MIB for found in by_pid.values())
    assert len(sizes) == MAX_WITH_SNAPSHOTS
    assert sizes[-10:] == list(range(191, 201))


def test_sizes_that_no_machine_has_do_not_break_it() -> None:
    run = run_of(sample(0, {PID: (1 << 63) - 1, PID + 1: (1 << 63) - 1}))
    assert run.tree.last == (1 << 63) - 1


# ---- events that are kept -------------------------------------------------------------------


def test_events_are_kept_by_type_for_those_who_read_them_again() -> None:
    events = list(leaking_run(5))
    run = run_of(*events, keep_events=True)
    for kind in (SampleEvent, PhaseEvent, SnapshotEvent):
        assert list(run.of_type(kind)) == [e for e in events if type(e) is kind]
    assert [instant.level_bytes // MIB for instant in run.instants[-2:]] == [210, 210]
    live = run_of(*events)
    assert list(live.of_type(SnapshotEvent)) == []
    assert live.instants == []


def test_of_very_many_events_every_second_one_is_kept() -> None:
    run = Run(HEADER, keep_events=True, bounds=Bounds(100, 100, 100, 100, 100))
    for n in range(1000):
        size = 500 * MIB if n == 333 else 9 * MIB
        run.take(sample(n, {PID: size}, low_bytes=MIB if n == 444 else None))
        run.take(taken(n, size, generation=n))
        run.take(NamesSnapshotEvent(t=n, pid=PID, statement=statement({}, rss_bytes=size)))
        run.take(phase(n, n, "train", MIB, MIB))
    for kind in (SampleEvent, SnapshotEvent, NamesSnapshotEvent, PhaseEvent):
        times = [event.t for event in run.of_type(kind)]
        assert len(times) <= 101
        assert times == sorted(times)
        assert times[-1] == 999
        assert kind is PhaseEvent or 333 in times
    assert min(instant.low_bytes for instant in run.instants) == MIB


def test_old_iterations_are_thinned_as_a_whole() -> None:
    """Else a phase that comes second in each would be lost, or a level lose its books."""
    run = Run(HEADER, keep_events=True, bounds=LIVE)
    for n in range(5000):
        run.take(phase(n, n, "collect", MIB, 2 * MIB))
        run.take(phase(n, n, "train", 2 * MIB, 3 * MIB))
        run.take(generation(n, n, n * MIB))
        run.take(AllocatorsEvent(t=n, pid=PID, generation=n, malloc_in_use_bytes=n * MIB))
    numbers = [event.generation for event in run.of_type(GenerationEvent)]
    assert LIVE.events / 2 <= len(numbers) <= LIVE.events
    assert (numbers[0], numbers[-1]) == (0, 4999)
    assert [event.generation for event in run.of_type(AllocatorsEvent)] == numbers
    for name in ("collect", "train"):
        phases = [event for event in run.of_type(PhaseEvent) if event.name == name]
        assert [event.generation for event in phases] == numbers


def test_each_process_keeps_snapshots_of_its_own() -> None:
    run = Run(HEADER, keep_events=True, bounds=LIVE)
    for n in range(600):
        pid = PID if n % 10 == 0 else PID + 1
        run.take(snapshot(n, statement({"a": MIB}, rss_bytes=MIB, pid=pid), generation=n))
    counts = Counter(event.pid for event in run.of_type(SnapshotEvent))
    assert all(LIVE.snapshots / 2 <= count <= LIVE.snapshots for count in counts.values())
    assert len(counts) == 2


def test_a_live_run_takes_bounded_memory() -> None:
    run = Run(HEADER, keep_events=True, bounds=LIVE)

    def feed(begin: int, end: int) -> None:
        for n in range(begin, end):
            run.take(sample(n, {PID + k: n * MIB % 977 for k in range(8)}))
            run.take(phase(n, n, "train", n, n + 1))
            run.take(generation(n, n, n * MIB))
            if n % 5 == 0:
                accounts = {f"a{k}": MIB for k in range(40)}
                run.take(snapshot(n, statement(accounts, rss_bytes=100 * MIB), generation=n))

    feed(0, 1500)
    early = total_bytes(run)
    feed(1500, 4500)
    assert total_bytes(run) < 1.5 * early
    assert early < 4 * MIB
