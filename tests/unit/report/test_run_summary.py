"""The summary after a run: what ended it, the trend, the growth; from events alone."""

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.verdict import diagnose
from ramledger.event_parts import ContainerContent
from ramledger.events import (
    Event,
    ExpectationEvent,
    FunctionGrowthEvent,
    Header,
    NoteEvent,
    PhaseEvent,
    PressureEvent,
    ReleaseProbeEvent,
)
from ramledger.ledger import Limit
from ramledger.report.json.run_document import run_document
from ramledger.report.terminal.run_summary import print_summary
from ramledger.run.ending import ending_of, kernel_kill
from ramledger.run.model import Run
from tests.support.report_events import (
    MIB,
    PID,
    generation,
    leaking_run,
    process,
    process_end,
    run_end,
    run_of,
    sample,
    snapshot,
    statement,
)


def printed(
    run: Run,
    width: int = 100,
    encoding: str = "utf-8",
    diagnosis: Diagnosis | None = None,
    *,
    verbose: bool = True,
) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_summary(run, Console(file=stream, width=width), diagnosis, verbose=verbose)
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode(encoding)


def rows_below(text: str, title: str) -> list[list[str]]:
    """The cells of the table after a title line."""
    lines = text.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.strip().startswith(title))
    stop = next((n for n, line in enumerate(lines[begin:]) if not line.strip()), len(lines))
    return [[c for c in line.split("  ") if c.strip()] for line in lines[begin + 1 : begin + stop]]


def test_a_leaking_run_is_told_whole() -> None:
    run = run_of(*leaking_run(10), run_end(), keep_events=True)
    text = printed(run, diagnosis=diagnose(run))
    for part in (
        "python train.py --seed 3 ended after 41 s", "peak 290.0 MiB in iteration 8",
        "28% of the limit, 1.0 GiB (--limit)", "statement at the peak: iteration 9 (evaluate)",
        "growing 16.0 MiB an iteration: trainer.envs",
        "RSS grew 143.8 MiB from iteration 0 to 9",
        "18 TradingEnvironment instead of 2 in iteration 1 (evaluate)",
    ):  # fmt: skip
        assert part in text, part


@pytest.mark.parametrize("width", [80, 120])
def test_the_short_summary_fits_a_screen_with_the_verdict_first(width: int) -> None:
    run = run_of(*leaking_run(10), run_end(), keep_events=True)
    text = printed(run, width, diagnosis=diagnose(run), verbose=False)
    lines = text.splitlines()
    assert len(lines) <= 45
    order = ["leak  ", "memory at the largest snapshot", "growth from iteration", "phases"]
    places = [next(n for n, line in enumerate(lines) if line.startswith(one)) for one in order]
    assert places == sorted(places)
    assert places[1] - places[0] <= 13  # 12 lines of verdict, one empty
    assert "held by" in text and "what to do" in text
    assert "generation" not in text


def test_what_other_processes_held_is_in_the_table() -> None:
    run = run_of(
        process(PID, "python train.py"),
        process(PID + 1, "python worker", PID),
        sample(0.9, {PID: 50 * MIB, PID + 1: 30 * MIB}),
        snapshot(1, statement({"env": 20 * MIB}, rss_bytes=50 * MIB), generation=0),
        run_end(),
        keep_events=True,
    )
    rows = rows_below(printed(run, verbose=False), "memory at the largest")
    cells = [[cell.strip() for cell in row] for row in rows]
    assert ["other processes of the run", "30.0 MiB", "38%"] in cells
    assert ["together", "80.0 MiB", "100%"] in cells


def test_the_trend_has_a_row_for_each_phase_and_says_the_change() -> None:
    rows = [
        [c.strip() for c in row] for row in rows_below(printed(run_of(*leaking_run(4))), "trend")
    ]
    assert rows[0] == ["after", "RSS", "change", "peak"]
    assert rows[1] == ["iteration 0: evaluate", "116.0 MiB", "baseline", "124.0 MiB"]
    assert rows[2] == ["iteration 0: train", "116.0 MiB", "0 B", "124.0 MiB"]
    assert rows[3] == ["iteration 1: evaluate", "132.0 MiB", "+16.0 MiB", "140.0 MiB"]
    assert len(rows) == 1 + 8


def test_a_long_trend_is_spread_over_the_run() -> None:
    events = [generation(n, n, (100 + n) * MIB) for n in range(1000)]
    names = [row[0].strip() for row in rows_below(printed(run_of(*events)), "trend")[1:]]
    assert len(names) <= 30
    assert (names[0], names[-1]) == ("iteration 0", "iteration 999")


def test_snapshots_with_a_name_are_in_the_trend() -> None:
    events = [
        snapshot(n, statement({}, rss_bytes=(n + 1) * MIB), label=f"Debug checkpoint {n}")
        for n in (1, 2)
    ]
    rows = [[c.strip() for c in row] for row in rows_below(printed(run_of(*events)), "trend")]
    assert rows[1:] == [
        ["Debug checkpoint 1", "2.0 MiB", "baseline"],
        ["Debug checkpoint 2", "3.0 MiB", "+1.0 MiB"],
    ]


def test_growth_names_accounts_objects_and_containers() -> None:
    text = printed(run_of(*leaking_run(10)))
    rows = [[c.strip() for c in row] for row in rows_below(text, "growth from")]
    assert ["variables/trainer.envs", "56.0 MiB", "200.0 MiB", "+144.0 MiB"] in rows
    assert ["__main__.TradingEnvironment", "2", "146", "+144"] in rows
    assert ["trainer.envs (list)", "0", "144", "+144"] in rows
    assert not any(row[0] == "dict" for row in rows)  # 9 more of 5,000 are no news


def test_live_objects_show_the_users_classes_and_roles_first_and_no_machinery() -> None:
    early = {"t.Env": 2, "t.Row": 10, "torch.nn.modules.linear.Linear": 4, "dict": 100}
    early |= {"inspect.Parameter": 5, "typing.ForwardRef": 7, "x.Parser": 3, "function": 50}
    late = {**early, "t.Row": 90, "dict": 900, "inspect.Parameter": 500, "x.Parser": 300}
    events = [
        snapshot(
            n, statement({}, rss_bytes=(n + 1) * MIB), generation=n, live_objects=counts,
            user_classes=("t.Env", "t.Row"),
        )
        for n, counts in enumerate((early, late))
    ]  # fmt: skip
    text = printed(run_of(*events))
    rows = [[c.strip() for c in row] for row in rows_below(text, "growth from")]
    assert rows[-5:] == [
        ["t.Env", "2", "2", "+0"],  # that their number stays is good news
        ["t.Row", "10", "90", "+80"],
        ["torch.nn.modules.linear.Linear", "4", "4", "+0"],
        ["dict", "100", "900", "+800"],
        ["x.Parser", "3", "300", "+297"],
    ]
    assert "inspect" not in text and "ForwardRef" not in text
    assert text.index("live objects (yours") < text.index("t.Env") < text.index("t.Row")


def test_phases_have_their_peak_and_their_growth() -> None:
    rows = [
        [c.strip() for c in row] for row in rows_below(printed(run_of(*leaking_run(10))), "phases")
    ]
    assert rows[1] == ["evaluate", "268.0 MiB", "+16.0 MiB", "+160.0 MiB", "10 s", "10"]
    assert rows[2] == ["train", "268.0 MiB", "0 B", "0 B", "10 s", "10"]


def test_functions_and_the_probe_are_told_when_they_tell_something() -> None:
    functions = FunctionGrowthEvent(t=1, pid=PID, growth_bytes={"train.py:f": 30 * MIB})
    probe = ReleaseProbeEvent(
        t=2, pid=PID, anon_bytes=100 * MIB, collected_objects=1234, after_collect_bytes=60 * MIB,
        after_trim_bytes=59 * MIB,
    )  # fmt: skip
    text = printed(run_of(functions, functions, probe, run_end()))
    assert "train.py:f" in text
    assert "+60.0 MiB" in text
    assert "gc.collect() freed 1,234 objects and gave back 40.0 MiB" in text
    assert "malloc_trim(0) gave back 1.0 MiB" in text
    quiet = printed(
        run_of(replace(probe, after_collect_bytes=100 * MIB, after_trim_bytes=100 * MIB))
    )
    assert "gc.collect" not in quiet


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (run_end(), "ended after 41 s"),
        (run_end(exit_code=3), "ended after 41 s with exit code 3"),
        (run_end(exit_code=None, signal=15), "was ended by SIGTERM after 41 s"),
        (run_end(exit_code=None, signal=60), "was ended by signal 60 after 41 s"),
    ],
)
def test_how_it_ended(event: Event, text: str) -> None:
    assert ending_of(run_of(event)).text == text


def test_a_recording_without_an_end_says_so() -> None:
    assert "the recording stops here" in printed(run_of(*leaking_run(2)))


def test_a_run_that_ended_at_once_is_one_line() -> None:
    assert len(printed(run_of(run_end(0.1, exit_code=1))).splitlines()) == 1


# ---- killed by the kernel -------------------------------------------------------------------


def test_a_root_that_the_kernel_killed() -> None:
    run = run_of(*leaking_run(10), run_end(exit_code=None, signal=9, killed_by_kernel=True))
    kill = kernel_kill(run)
    assert kill is not None
    assert (kill.pid, kill.resident_bytes) == (PID, 260 * MIB)
    assert kill.largest[0] == ("variables/trainer.envs", 200 * MIB)
    assert kill.grew_last == ("variables/trainer.envs", 16 * MIB, 4.0)
    text = printed(run)
    first = "was killed by the kernel for memory after 41 s, at 290.0 MiB of 1.0 GiB; what grew"
    assert first in " ".join(text.splitlines()[:2])
    assert "the kernel killed it for memory" in text
    assert f"pid {PID} (python train.py --seed 3) held 260.0 MiB" in text
    assert "variables/trainer.envs 200.0 MiB" in text
    assert "variables/trainer.envs grew last: +16.0 MiB in 4 s" in text


def test_a_worker_that_the_kernel_killed() -> None:
    run = run_of(
        process(PID, "python train.py"),
        process(PID + 1, "python worker", PID),
        process(PID + 2, "python other", PID),
        sample(1, {PID: 50 * MIB, PID + 1: 900 * MIB, PID + 2: MIB}),
        process_end(2, PID + 1),
        process_end(2, PID + 2),
        run_end(3, exit_code=1, killed_by_kernel=True),
    )
    kill = kernel_kill(run)
    assert kill is not None
    assert (kill.pid, kill.command, kill.resident_bytes) == (PID + 1, "python worker", 900 * MIB)
    assert "pid 701 (python worker) held 900.0 MiB" in printed(run)


def test_a_death_by_sigkill_that_was_not_the_kernels_is_not_blamed_on_it() -> None:
    run = run_of(*leaking_run(3), run_end(exit_code=None, signal=9, killed_by_kernel=False))
    assert kernel_kill(run) is None
    assert "kernel" not in printed(run)


def test_a_kill_that_nobody_saw_coming_is_still_told() -> None:
    run = run_of(run_end(exit_code=None, signal=9, killed_by_kernel=True))
    assert "the kernel killed it for memory" in printed(run)


# ---- layout ---------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_too_wide(width: int) -> None:
    text = printed(run_of(*leaking_run(10), run_end()), width)
    assert max(map(cell_len, text.splitlines())) <= width


def test_text_of_strangers_stays_text() -> None:
    nasty = "[bold red]x[/]\x1b[31m\x07\r\n"
    run = run_of(
        process(PID, nasty),
        sample(0, {PID: 5 * MIB}),
        snapshot(1, statement({nasty: 2 * MIB}, rss_bytes=5 * MIB), label=nasty, generation=0),
        snapshot(2, statement({nasty: 9 * MIB}, rss_bytes=9 * MIB), label=nasty, generation=1,
                 live_objects={nasty: 5}, containers=(ContainerContent(nasty, length=3),)),
        PhaseEvent(t=3, pid=PID, name=nasty, generation=1, before_bytes=0, after_bytes=MIB),
        NoteEvent(t=3, text=nasty),
        ExpectationEvent(t=3, type=nasty, expected=1, found=2, paths=(nasty,)),
        PressureEvent(t=3, usage_bytes=1, limit_bytes=2, action=nasty),
        FunctionGrowthEvent(t=3, pid=PID, growth_bytes={nasty: 5 * MIB}),
        run_end(exit_code=None, signal=9, killed_by_kernel=True),
        header=Header(command=(nasty,), limit=Limit(MIB, nasty)),
    )  # fmt: skip
    text = printed(run)
    assert "[bold red]x[/]" in text
    assert not {"\x1b", "\x07", "\r"} & set(text)


def test_it_can_be_printed_where_only_ascii_can() -> None:
    assert "ended after" in printed(run_of(*leaking_run(3), run_end()), encoding="ascii")


def test_the_json_document() -> None:
    run = run_of(*leaking_run(10), run_end(exit_code=None, signal=9, killed_by_kernel=True))
    document = run_document(run, "x.ledger.jsonl")
    assert document["schema"] == "ramledger.run/1"
    assert (document["exit_code"], document["signal"]) == (None, 9)
    assert document["killed_by_kernel"]["grew_last"] == "variables/trainer.envs"
    assert document["growth_bytes_per_generation"] == 16 * MIB
    assert document["generations"] == 9
    assert document["statement"]["rss_bytes"] == 260 * MIB
    assert document["growth"]["rss_growth_bytes"] == 144 * MIB
    assert [row["name"] for row in document["phases"]] == ["evaluate", "train"]
    empty = run_document(Run(), "x")
    assert (empty["statement"], empty["growth"], empty["generations"]) == (None, None, None)
