"""The growth table: what stays, fills and rises; how rows and dense series bear each other out."""

import pytest

from ramledger.diagnose.finding import Verdict
from ramledger.diagnose.growth_lines import growth_lines
from ramledger.diagnose.growth_table import GrowthTable, growth_table, leak_inside
from ramledger.diagnose.outlook import outlook
from ramledger.diagnose.verdict import diagnose
from ramledger.event_parts import ContainerContent, RunSettings
from ramledger.events import Event, Header
from ramledger.ledger import Limit
from ramledger.run.shapes import Shape
from ramledger.run.timeline import build_timeline
from tests.support.made_up_recordings import (
    MIB,
    PID,
    generations,
    recording,
    sample,
    snapshot,
)

LOG, BUFFER = "variables/Trainer.log", "variables/Trainer.replay.buffer"
BASE = "imports/torch"


def table(levels: list[float], *events: Event) -> GrowthTable:
    return growth_table(build_timeline(recording(*generations(levels), *events)))


def buffer_of(length: int, capacity: int = 1500) -> tuple[ContainerContent, ...]:
    path = BUFFER.removeprefix("variables/")
    return (
        ContainerContent(
            path, type="deque", length=length, of="dict", bytes=length * MIB // 10,
            account=BUFFER, capacity=capacity,
        ),
    )  # fmt: skip


def filling(moments: list[int]) -> list[Event]:
    """100 elements of 0.1 MiB an iteration, in a deque for 1,500."""
    lengths = [min(1500, 100 * (g + 1)) for g in moments]
    return [
        snapshot(g, {BASE: 100, BUFFER: length / 10}, containers=buffer_of(length))
        for g, length in zip(moments, lengths, strict=True)
    ]


def levels_of(filled_until: int, count: int, leak: float = 0.0) -> list[float]:
    return [100 + 10.0 * min(g + 1, filled_until) + leak * g for g in range(count)]


def test_rows_and_what_is_not_explained_sum_to_the_growth_of_rss() -> None:
    events = [snapshot(g, {BASE: 100, LOG: 3.0 * g}) for g in range(0, 20, 3)]
    found = table([100 + 3.0 * g for g in range(20)], *events)
    lines = growth_lines(found, None)
    statement = found.statement
    assert sum(line.growth_bytes for line in lines) == statement.whole.growth
    assert lines[0].account == LOG
    assert round(lines[0].bytes_per_generation / MIB, 1) == 3.0


def test_a_buffer_on_its_way_to_its_capacity_is_no_leak() -> None:
    found = table(levels_of(15, 12), *filling([1, 4, 8, 11]))
    assert found.fillings == [BUFFER]
    assert found.fits[BUFFER].shape is Shape.FILLING
    assert leak_inside(found) is None


def test_one_snapshot_is_enough_to_know_a_capacity() -> None:
    found = table(levels_of(15, 12), *filling([4, 5]))
    assert found.capacities[BUFFER] == 150 * MIB


def test_a_leak_beside_a_buffer_that_fills_is_seen() -> None:
    found = table(levels_of(15, 20, leak=4.0), *filling([1, 4, 8, 12, 16, 19]))
    growth = leak_inside(found)
    assert growth is not None
    assert 3.5 * MIB < growth.rate < 4.5 * MIB


def test_a_row_that_snapshots_show_rising_does_not_leak_where_the_level_is_flat() -> None:
    events = [snapshot(g, {BASE: 100 - 3 * n, LOG: 3.0 * n}) for n, g in enumerate((1, 2, 3))]
    assert leak_inside(table([100.0] * 20, *events)) is None


def test_what_is_rare_in_a_snapshot_before_the_first_iteration_is_start_up() -> None:
    before = snapshot(0, {BASE: 10}, t=0.1)
    after = [snapshot(g, {BASE: 100, LOG: 5}) for g in (1, 4, 8)]
    found = table([105.0] * 12, before, *after)
    assert [value for _, value in found.accounts[LOG]] == [5 * MIB] * 3


def test_two_leaks_are_two_findings_each_with_its_rate() -> None:
    def container(path: str, g: int) -> ContainerContent:
        return ContainerContent(
            path, type="list", length=g + 1, of="bytes", bytes=(g + 1) * MIB,
            account=f"variables/{path}",
        )  # fmt: skip

    events = [
        snapshot(
            g,
            {BASE: 100, LOG: 4.0 * g, "variables/Agent.episodes": 2.0 * g},
            containers=(container("Trainer.log", g), container("Agent.episodes", g)),
        )
        for g in range(1, 20, 3)
    ]
    found = diagnose(recording(*generations([100 + 6.0 * g for g in range(20)]), *events))
    rates = {leak.culprit.path: leak.bytes_per_generation / MIB for leak in found.leaks}
    assert rates == {"Trainer.log": pytest.approx(4.0), "Agent.episodes": pytest.approx(2.0)}


# ---- the outlook ---------------------------------------------------------------------------------


def test_a_buffer_that_fills_ends_at_its_capacity() -> None:
    found = outlook(table(levels_of(15, 8), *filling([1, 4, 7])), 100, Limit(300 * MIB, "host RAM"))
    assert abs(found.peak_bytes - 250 * MIB) < 8 * MIB
    assert found.fits is True
    assert found.limit_generation is None


def test_three_generations_are_enough_for_a_forecast() -> None:
    levels = [100 + 10.0 * g for g in range(3)]
    samples = [sample(0.5 + i / 5, {PID: 100 + 2 * i}) for i in range(12)]
    run = recording(*generations(levels), *samples)
    run.header = Header(settings=RunSettings(iterations=21))
    found = diagnose(run)
    assert found.verdict is Verdict.UNDECIDED
    assert found.outlook is not None
    assert found.outlook.generation == 20
    # nothing says that it goes on: once more as much is as likely as not
    assert found.outlook.peak_bytes == pytest.approx(140 * MIB, rel=0.05)
    low, high = found.outlook.interval_bytes
    assert low <= 130 * MIB
    assert high >= 300 * MIB


def test_a_leak_goes_on_to_the_planned_end() -> None:
    run = recording(*generations([100 + 10.0 * g for g in range(12)]))
    run.header = Header(settings=RunSettings(iterations=21))
    found = diagnose(run)
    assert found.verdict is Verdict.LEAK
    assert found.outlook is not None
    assert found.outlook.peak_bytes == pytest.approx(300 * MIB, rel=0.05)


def test_growth_of_another_process_that_is_in_no_series_is_in_the_peak() -> None:
    """Pages of files in children, and what was needed for a moment."""
    run = recording(*generations([100.0] * 8))
    found = diagnose(run).outlook
    assert found is not None
    run.peak_bytes = 150 * MIB
    later = diagnose(run).outlook
    assert later is not None
    assert found.peak_bytes < 120 * MIB
    assert later.peak_bytes == 150 * MIB


def test_pages_of_files_are_in_the_peak_and_do_not_count_against_the_limit() -> None:
    run = recording(*generations([100.0] * 8, file_bytes=50 * MIB))
    found = outlook(growth_table(build_timeline(run)), 20, Limit(120 * MIB, "cgroup"))
    assert found.peak_bytes == pytest.approx(150 * MIB, rel=0.02)
    assert found.fits is True


def test_a_buffer_that_will_not_fit_is_known_before_it_is_full() -> None:
    found = outlook(table(levels_of(15, 8), *filling([1, 4, 7])), 100, Limit(200 * MIB, "cgroup"))
    assert found.fits is False
    assert found.limit_generation is not None
    assert 8 <= found.limit_generation <= 11


def test_a_leak_goes_on() -> None:
    found = outlook(table([100 + 5.0 * g for g in range(20)]), 99, Limit(400 * MIB, "host RAM"))
    assert abs(found.peak_bytes - 595 * MIB) < 12 * MIB
    assert found.fits is False
    assert found.limit_generation is not None
    assert abs(found.limit_generation - 60) <= 2


def test_without_a_plan_a_flat_run_fits() -> None:
    found = outlook(table([100.0] * 12), None, Limit(200 * MIB, "host RAM"))
    assert found.fits is True
    assert found.generation is None


def test_what_was_still_there_after_the_training_counts() -> None:
    """Full after 18 of 44 iterations; the last snapshot of the training is of the 17th."""
    events = [snapshot(g, {BASE: 100, LOG: 1.0 * g}) for g in (1, 3, 6, 10, 14, 17)]
    levels = [100.0 + min(g, 18) for g in range(44)]
    assert not table(levels, *events).leaking


def test_few_samples_of_nothing_are_not_undecided() -> None:
    found = table([100.0] * 20)
    assert found.children.points == 0 or found.is_decided(found.children)
    assert found.undecided == []


def test_growth_that_no_name_holds_beside_a_buffer_is_judged_when_it_is_full() -> None:
    while_it_fills = table(levels_of(15, 14, leak=4.0), *filling([1, 4, 8, 12]))
    found = leak_inside(while_it_fills)
    assert found is None or while_it_fills.until_full(found) > 0
    long_after = table(levels_of(15, 60, leak=4.0), *filling([1, 4, 8, 12, 30, 58]))
    found = leak_inside(long_after)
    assert found is not None
    assert long_after.until_full(found) == 0
