"""The view of watched processes from made-up events: numbers, targets, and what fits where."""

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from ramledger.errors import ConfigError
from ramledger.event_parts import ProcessMemory
from ramledger.events import (
    Event,
    HeadroomEvent,
    ProcessEndEvent,
    ProcessEvent,
    SampleEvent,
)
from ramledger.ledger import Limit
from ramledger.report.terminal.watch_table import ended_line, one_line, watch_view
from ramledger.run.model import Run
from ramledger.run.watched import Targets, Watch
from tests.support.places import ROOT

MIB = 1 << 20
GIB = 1 << 30


def started(pid: int, parent: int = 1, command: str = "python train.py") -> Event:
    return ProcessEvent(t=0.0, pid=pid, parent_pid=parent, command=command)


def sample(t: float, rows: Mapping[int, list[int]], **more: Any) -> Event:
    """Rows of anon, file, shmem and swap in MiB, and threads."""
    sizes = {
        pid: ProcessMemory(anon * MIB, file * MIB, shmem * MIB, swap * MIB, threads)
        for pid, (anon, file, shmem, swap, threads) in rows.items()
    }
    return SampleEvent(t=t, processes=sizes, **more)


def headroom(pids: list[int], left: int, limit: int = 30 * GIB, source: str = "host RAM") -> Event:
    return HeadroomEvent(t=0.0, pids=tuple(pids), bytes=left, limit=Limit(limit, source))


def watch_of(*events: Event, targets: str = "") -> Watch:
    watch = Watch(Run(), Targets.parse(targets))
    for event in events:
        watch.run.take(event)
    return watch


def growing(
    mib_per_second: int, *, seconds: int = 60, targets: str = "", left: int = 10 * GIB
) -> Watch:
    """One process at 1 GiB and up, in a machine with `left` bytes left at the end."""
    samples = [
        sample(float(t), {7: [1024 + mib_per_second * t, 20, 0, 0, 12]}) for t in range(seconds + 1)
    ]
    return watch_of(started(7), *samples[:-1], headroom([7], left), samples[-1], targets=targets)


def shown(watch: Watch, width: int = 100, height: int = 40, **options: Any) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(watch_view(watch, width, height, **options), soft_wrap=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class TestTargets:
    def test_all_three(self) -> None:
        found = Targets.parse(" rss=15GiB, threads=30 ,total=25 GB")
        assert found == Targets(15 * GIB, 30, 25 * 10**9)
        assert Targets.parse("") == Targets()

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("rss", "not a target: 'rss'"),
            ("rss=", "not a size: ''"),
            ("rss=15 parsecs", "unknown unit"),
            ("rss=-1", "not a size"),
            ("threads=2.5", "not a number of threads"),
            ("threads=-1", "not a number of threads"),
            ("threads=٣", "not a number of threads"),
            ("swap=1GiB", "not a target"),
            ("RSS=1GiB", "not a target"),
            ("rss=1GiB,,total=2GiB", "not a target: ''"),
            ("rss=1GiB,rss=2GiB", "given twice"),
        ],
    )
    def test_what_cannot_be_understood(self, text: str, said: str) -> None:
        with pytest.raises(ConfigError, match=said) as caught:
            Targets.parse(text)
        assert "rss=15GiB,threads=30,total=25GiB" in caught.value.hint

    def test_they_hold_or_are_missed(self) -> None:
        """A target that is exactly reached holds."""
        rows = {7: [90, 10, 0, 0, 30], 8: [100, 1, 0, 0, 31]}
        watch = watch_of(sample(0.0, rows), targets="rss=100MiB,threads=30,total=201MiB")
        assert [(c.target, c.pid) for c in watch.missed()] == [("rss", 8), ("threads", 8)]
        assert len(watch.checks()) == 5
        text = shown(watch)
        assert "target rss missed: 8 holds 101.0 MiB, target 100.0 MiB" in text
        assert "target threads missed: 8 has 31 threads, target 30" in text
        assert "target total holds: total holds 201.0 MiB, target 201.0 MiB" in text

    def test_shared_pages_count_once_in_the_total(self) -> None:
        rows = {7: [10, 0, 90, 0, 1], 8: [10, 0, 90, 0, 1]}
        without = watch_of(sample(0.0, rows), targets="total=120MiB")
        assert without.counted_once_bytes == 200 * MIB
        assert without.missed()
        pss = {7: 55 * MIB, 8: 55 * MIB}
        known = watch_of(sample(0.0, rows, pss_bytes=pss), targets="total=120MiB")
        assert (known.counted_once_bytes, known.missed()) == (110 * MIB, [])
        known.run.take(sample(1.0, {7: [25, 0, 90, 0, 1], 8: [10, 0, 90, 0, 1]}))
        assert known.counted_once_bytes == 125 * MIB
        assert known.missed()

    def test_those_that_ended_take_what_they_shared_with_them(self) -> None:
        rows = {pid: [0, 0, 100, 0, 1] for pid in range(2, 12)}
        pss = dict.fromkeys(rows, 10 * MIB)
        ends = [ProcessEndEvent(t=1.0, pid=pid) for pid in range(3, 12)]
        watch = watch_of(
            sample(0.0, rows, pss_bytes=pss), *ends, sample(1.0, {2: [0, 0, 100, 0, 1]})
        )
        assert 10 * MIB <= watch.counted_once_bytes <= 100 * MIB
        watch.run.take(sample(2.0, {2: [0, 0, 100, 0, 1]}, pss_bytes={2: 100 * MIB}))
        assert watch.counted_once_bytes == 100 * MIB

    def test_colors(self) -> None:
        rows = {7: [50, 0, 0, 0, 1], 8: [90, 0, 0, 0, 1], 9: [101, 0, 0, 0, 1]}
        watch = watch_of(sample(0.0, rows), targets="rss=100MiB")
        console = Console(
            width=100, file=io.StringIO(), force_terminal=True, color_system="standard"
        )
        console.print(watch_view(watch, 100, 40))
        assert isinstance(console.file, io.StringIO)
        lines = console.file.getvalue().splitlines()
        for size, code in (("50.0 MiB", "32m"), ("90.0 MiB", "33m"), ("101.0 MiB", "31m")):
            line = next(line for line in lines if size in line)
            assert code in line.split(size)[0]


class TestTimeLeft:
    def test_until_the_limit_that_others_share(self) -> None:
        """10 GiB are left to it, whatever the others hold of the 30."""
        watch = growing(10)
        row = watch.run.processes.rows[7]
        assert watch.outlook(row).seconds_left == pytest.approx(1024, rel=0.02)
        assert watch.end_of(row) == row.limit
        text = shown(watch)
        assert "+600.0 MiB" in text
        assert "17 min" in text
        assert "30.0 GiB (host RAM) in 17 min" in text
        assert "growing 600.0 MiB/min" in text

    def test_until_the_target(self) -> None:
        watch = growing(10, targets="rss=2GiB")
        left = (2048 - 1024 - 600 - 20) / 10
        assert watch.outlook(watch.run.processes.rows[7]).seconds_left == pytest.approx(
            left, rel=0.05
        )
        assert "2.0 GiB (target) in" in shown(watch)

    def test_a_target_that_is_missed_is_no_end(self) -> None:
        watch = growing(10, targets="rss=1GiB")
        assert watch.outlook(watch.run.processes.rows[7]).seconds_left == pytest.approx(
            1024, rel=0.02
        )
        assert "target rss missed" in shown(watch)

    def test_of_several_the_least_is_told_in_full(self) -> None:
        events = [started(7), started(8)]
        for t in range(31):
            rows = {7: [100 + t, 0, 0, 0, 1], 8: [100 + 5 * t, 0, 0, 0, 1]}
            events += [headroom([7, 8], GIB), sample(float(t), rows)]
        text = shown(watch_of(*events))
        assert "\n8: 30.0 GiB (host RAM) in 3 min" in text

    def test_nothing_grows(self) -> None:
        text = shown(growing(0))
        assert "steady" in text
        assert " in " not in text

    def test_the_first_sample_says_nothing_of_growth(self) -> None:
        text = shown(watch_of(started(7), headroom([7], GIB), sample(0.0, {7: [100, 0, 0, 0, 1]})))
        assert "steady" not in text
        assert "▁" not in text

    def test_in_years(self) -> None:
        watch = growing(1, seconds=100, left=1 << 50)
        assert "> 30 d" in shown(watch)
        assert " in " not in one_line(watch)

    def test_the_tightest_of_several_groups_ends_all(self) -> None:
        watch = watch_of(
            sample(0.0, {7: [1, 0, 0, 0, 1], 8: [1, 0, 0, 0, 1]}),
            headroom([7], 5 * GIB),
            headroom([8], GIB, limit=2 * GIB, source="cgroup memory.max of /x"),
        )
        assert watch.run.processes.rows[7].headroom_bytes == 5 * GIB
        assert watch.total.headroom_bytes == GIB
        assert "1.0 GiB left of 2.0 GiB (cgroup memory.max of /x)" in shown(watch)

    def test_no_room_at_all(self) -> None:
        watch = growing(10, left=-5)
        assert "now" in shown(watch)
        assert "(host RAM) is reached" in shown(watch)


class TestProcesses:
    def test_one_that_ends_is_said(self) -> None:
        watch = watch_of(
            started(7), started(8, command="python other.py"),
            sample(0.0, {7: [10, 0, 0, 0, 1], 8: [500, 0, 0, 0, 1]}),
            ProcessEndEvent(t=1.0, pid=8),
            sample(1.0, {7: [10, 0, 0, 0, 1]}),
        )  # fmt: skip
        assert [row.pid for row in watch.rows] == [7]
        assert [ended_line(row) for row in watch.ended_since(0)] == [
            "8 python other.py ended; it held 500.0 MiB last"
        ]
        assert watch.ended_since(watch.run.processes.ended_count) == []
        assert "8 python other.py ended" in shown(watch)
        watch.run.take(sample(100.0, {7: [10, 0, 0, 0, 1]}))
        assert "ended" not in shown(watch)

    def test_many_end_at_once(self) -> None:
        rows = {pid: [1, 0, 0, 0, 1] for pid in range(2, 202)}
        ends = [ProcessEndEvent(t=1.0, pid=pid) for pid in range(3, 202)]
        watch = watch_of(sample(0.0, rows), *ends, sample(1.0, {2: [1, 0, 0, 0, 1]}))
        assert watch.run.processes.ended_count == 199
        assert len(watch.ended_since(0)) == 50
        assert "more ended" in shown(watch)

    def test_the_last_one_ends(self) -> None:
        watch = watch_of(
            sample(0.0, {7: [10, 0, 0, 0, 1]}),
            ProcessEndEvent(t=1.0, pid=7),
            sample(1.0, {}),
        )
        assert watch.total.rss_bytes == 0
        assert one_line(watch) == "no process is left"
        assert "7 " in shown(watch)

    def test_families(self) -> None:
        """Children below their parents, sums of each family, the largest family first."""
        watch = watch_of(
            started(10, command="python a.py"), started(11, 10, "worker of a"),
            started(12, 11, "deep of a"), started(20, command="python b.py"), started(21, 20, "w"),
            sample(
                0.0,
                {
                    10: [10, 0, 0, 0, 2], 11: [100, 0, 0, 0, 1], 12: [1, 0, 0, 0, 1],
                    20: [30, 0, 0, 0, 1], 21: [5, 0, 0, 0, 4],
                },
            ),
        )  # fmt: skip
        lines = shown(watch).splitlines()
        order = [line.split()[0] for line in lines[1:9]]
        assert order == ["20", "21", "35.0", "10", "11", "12", "111.0", "total"]
        assert "20 and its children" in lines[3]
        assert lines[5].index("worker") == lines[4].index("python") + 2
        assert lines[6].index("deep") == lines[4].index("python") + 4
        assert "146.0 MiB" in lines[8] and "5 processes" in lines[8]

    def test_pids_that_close_a_circle_are_shown(self) -> None:
        rows = {pid: [pid, 0, 0, 0, 1] for pid in (7, 8, 9)}
        watch = watch_of(started(7, 8), started(8, 7), started(9, 7), sample(0.0, rows))
        assert {line.split()[0] for line in shown(watch).splitlines()[1:5]} >= {"7", "8", "9"}

    def test_pss_moves_along_with_rss(self) -> None:
        first = sample(0.0, {7: [100, 50, 0, 0, 1]}, pss_bytes={7: 120 * MIB})
        watch = watch_of(first, sample(1.0, {7: [110, 50, 0, 0, 1]}))
        assert watch.run.processes.rows[7].pss_bytes == 130 * MIB
        assert watch_of(sample(0.0, {7: [1, 0, 0, 0, 1]})).run.processes.rows[7].pss_bytes is None

    def test_swap_is_shown_where_there_is_some(self) -> None:
        assert "swap" not in shown(watch_of(sample(0.0, {7: [1, 0, 0, 0, 1]})), 200)
        text = shown(watch_of(sample(0.0, {7: [1, 0, 0, 64, 1]})), 200)
        assert "swap" in text and "64.0 MiB" in text

    def test_memory_is_bounded(self) -> None:
        watch = watch_of(*(sample(float(pid), {pid: [pid, 0, 0, 0, 1]}) for pid in range(2, 2000)))
        assert len(watch.rows) <= 1000
        assert 1999 in [row.pid for row in watch.rows]


class TestOutput:
    @pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 200])
    @pytest.mark.parametrize("height", [8, 24, 60])
    def test_it_fits(self, width: int, height: int) -> None:
        rows = {pid: [pid, 3, 1, 0, 5] for pid in range(100, 140)}
        events = [started(pid, 90 + pid % 3, f"python {'x' * 300}") for pid in rows]
        samples = [sample(float(t), rows, pss_bytes={110: GIB}) for t in range(10)]
        watch = watch_of(*events, *samples, headroom([*rows], GIB), targets="rss=100MiB,threads=3")
        text = shown(watch, width, height)
        lines = text.splitlines()
        if width >= 60:
            assert max(map(cell_len, lines)) <= width
        assert len(lines) <= max(height, 14)
        assert "smaller ones" in text or height == 60 or width < 80

    def test_a_narrow_terminal_keeps_what_matters(self) -> None:
        watch = growing(10)
        assert set(shown(watch, 60).splitlines()[0].split()) >= {"pid", "RSS", "threads", "left"}
        wide = shown(watch, 160).splitlines()[0].split()
        assert {"anon", "file", "shmem", "PSS", "trend", "command"} <= set(wide)

    def test_without_unicode(self) -> None:
        events = [started(7, command="python " + "long/" * 60)]
        events += [sample(float(t), {7: [100 + t, 0, 0, 0, 1]}) for t in range(20)]
        text = shown(watch_of(*events, headroom([7], GIB)), is_ascii=True)
        assert text.isascii()

    def test_a_command_cannot_steer_the_terminal(self) -> None:
        watch = watch_of(
            started(7, command="\x1b[31mred\nline"), sample(0.0, {7: [1, 0, 0, 0, 1]}),
            headroom([7], GIB, source="cgroup \x1b[2J"),
        )  # fmt: skip
        assert "\x1b" not in shown(watch) + one_line(watch)

    def test_markup_is_text(self) -> None:
        command = "python [bold]x[/nothing]"
        watch = watch_of(started(7, command=command), sample(0.0, {7: [1, 0, 0, 0, 1]}))
        assert command in shown(watch)

    def test_one_line(self) -> None:
        watch = growing(10)
        line = one_line(watch)
        assert "\n" not in line
        assert line.startswith("7 python train.py 1.6 GiB +600.0 MiB/min 12 threads, 30.0 GiB")

    def test_one_line_for_many(self) -> None:
        rows = {pid: [pid, 0, 0, 0, 2] for pid in range(10, 20)}
        watch = watch_of(sample(0.0, rows), targets="threads=1")
        parts = one_line(watch).split(" | ")
        assert parts[0] == "total 145.0 MiB 20 threads"
        assert [part.split()[0] for part in parts[1:5]] == ["19", "18", "17", "16"]
        assert parts[5] == "6 more 75.0 MiB"
        assert parts[6] == "target missed: 19 has 2 threads, target 1"

    def test_the_document(self) -> None:
        watch = growing(10, targets="rss=1GiB,total=100GiB")
        document = json.loads(json.dumps(watch.to_dict(5.0), allow_nan=False))
        assert document["schema"] == "ramledger.watch/1"
        assert document["at"] == 5.0
        (process,) = document["processes"]
        assert (process["pid"], process["threads"]) == (7, 12)
        assert process["rss_bytes"] == process["anon_bytes"] + process["file_bytes"]
        assert process["bytes_per_second"] == pytest.approx(10 * MIB, rel=0.01)
        assert process["limit"] == {"bytes": 30 * GIB, "source": "host RAM"}
        assert process["seconds_left"] == pytest.approx(1024, rel=0.02)
        assert document["total"]["counted_once_bytes"] == process["rss_bytes"]
        assert [target["met"] for target in document["targets"]] == [False, True]
        page = (ROOT / "docs" / "watch.md").read_text(encoding="utf-8")
        names = {*document, *process, *document["total"], *document["targets"][0]}
        assert not {name for name in names if f"`{name}`" not in page}


NUMBERS = st.lists(st.integers(0, 1 << 50), min_size=5, max_size=5)
SAMPLES = st.lists(st.dictionaries(st.integers(1, 9), NUMBERS, max_size=4), max_size=12)


@settings(max_examples=50, deadline=None)
@given(SAMPLES, st.integers(20, 200), st.integers(1, 50))
def test_whatever_is_sampled_is_shown(
    samples: list[dict[int, list[int]]], width: int, height: int
) -> None:
    watch = Watch(Run(), Targets.parse("rss=1GiB,threads=3,total=2GiB"))
    for t, rows in enumerate(samples):
        known = {row.pid for row in watch.rows}
        for gone in known - set(rows):
            watch.run.take(ProcessEndEvent(t=float(t), pid=gone))
        for new in set(rows) - known:
            watch.run.take(started(new))
        named = {pid: ProcessMemory(*row) for pid, row in rows.items()}
        watch.run.take(SampleEvent(t=float(t), processes=named))
    assert {row.pid for row in watch.rows} == set(samples[-1] if samples else ())
    assert watch.total.rss_bytes == sum(row.rss_bytes for row in watch.rows)
    assert isinstance(shown(watch, width, height), str)
    json.dumps(watch.to_dict(0.0), allow_nan=False)
    assert "\n" not in one_line(watch)
