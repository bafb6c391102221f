"""The summary after a run: what ended it, the trend, the growth; from events alone."""

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from ramledger.report.json.run_document import run_document
from ramledger.report.terminal.killed_run import kernel_kill
from ramledger.report.terminal.run_summary import how_it_ended, print_summary
from ramledger.run.state import RunState
from tests.support.report_events import (
    HEADER,
    MIB,
    PID,
    generation,
    leaking_run,
    process,
    sample,
    snapshot,
    statement,
)


def state_of(*events: dict[str, Any], header: dict[str, Any] = HEADER) -> RunState:
    state = RunState(header)
    for event in events:
        state.apply(event)
    return state


def printed(state: RunState, width: int = 100, encoding: str = "utf-8") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_summary(state, Console(file=stream, width=width))
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode(encoding)


def end(t: float = 41.0, **more: Any) -> dict[str, Any]:
    return {"event": "end", "t": t, "exit_code": 0, "signal": None, "peak_bytes": 0, **more}


def rows_below(text: str, title: str) -> list[list[str]]:
    """The cells of the table after a title line."""
    lines = text.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.strip().startswith(title))
    stop = next((n for n, line in enumerate(lines[begin:]) if not line.strip()), len(lines))
    return [[c for c in line.split("  ") if c.strip()] for line in lines[begin + 1 : begin + stop]]


def test_a_leaking_run_is_told_whole() -> None:
    text = printed(state_of(*leaking_run(10), end()))
    for part in (
        "python train.py --seed 3 ended after 41 s", "peak RSS 290.0 MiB in generation 8",
        "28% of 1.0 GiB (--limit)", "statement at the peak: generation 9 (evaluate)",
        "+16.0 MiB a generation", "growth from generation 0 (evaluate) to generation 9 (evaluate)",
        "+144.0 MiB (+124.1%)", "18 TradingEnvironment instead of 2 in generation 1 (evaluate)",
    ):  # fmt: skip
        assert part in text, part


def test_the_trend_has_a_row_for_each_phase_and_says_the_change() -> None:
    rows = [
        [c.strip() for c in row] for row in rows_below(printed(state_of(*leaking_run(4))), "trend")
    ]
    assert rows[0] == ["after", "RSS", "change", "peak"]
    assert rows[1] == ["generation 0: evaluate", "116.0 MiB", "baseline", "124.0 MiB"]
    assert rows[2] == ["generation 0: train", "116.0 MiB", "0 B", "124.0 MiB"]
    assert rows[3] == ["generation 1: evaluate", "132.0 MiB", "+16.0 MiB", "140.0 MiB"]
    assert len(rows) == 1 + 8 + 1


def test_a_long_trend_is_spread_over_the_run() -> None:
    events = [generation(n, n, (100 + n) * MIB) for n in range(1000)]
    names = [row[0].strip() for row in rows_below(printed(state_of(*events)), "trend")[1:-1]]
    assert len(names) <= 30
    assert (names[0], names[-1]) == ("generation 0", "generation 999")


def test_snapshots_with_a_name_are_in_the_trend() -> None:
    events = [
        snapshot(n, statement({}, rss_bytes=(n + 1) * MIB), label=f"Debug checkpoint {n}")
        for n in (1, 2)
    ]
    rows = [[c.strip() for c in row] for row in rows_below(printed(state_of(*events)), "trend")]
    assert rows[1:] == [
        ["Debug checkpoint 1", "2.0 MiB", "baseline"],
        ["Debug checkpoint 2", "3.0 MiB", "+1.0 MiB"],
    ]


def test_growth_names_accounts_objects_and_containers() -> None:
    text = printed(state_of(*leaking_run(10)))
    rows = [[c.strip() for c in row] for row in rows_below(text, "growth from")]
    assert ["variables/trainer.envs", "56.0 MiB", "200.0 MiB", "+144.0 MiB"] in rows
    assert ["__main__.TradingEnvironment", "2", "146", "+144"] in rows
    assert ["trainer.envs (list)", "0", "144", "+144"] in rows
    assert not any(row[0] == "dict" for row in rows)  # 9 more of 5,000 are no news


def test_phases_have_their_peak_and_their_growth() -> None:
    rows = [
        [c.strip() for c in row]
        for row in rows_below(printed(state_of(*leaking_run(10))), "phases")
    ]
    assert rows[1] == ["evaluate", "268.0 MiB", "+16.0 MiB", "+160.0 MiB", "10 s", "10"]
    assert rows[2] == ["train", "268.0 MiB", "0 B", "0 B", "10 s", "10"]


def test_functions_and_the_probe_are_told_when_they_tell_something() -> None:
    functions = {"event": "functions", "t": 1, "pid": PID, "growth_bytes": {"train.py:f": 30 * MIB}}
    probe = {
        "event": "probe", "t": 2, "pid": PID, "rss_bytes": 100 * MIB, "collected_objects": 1234,
        "after_collect_bytes": 60 * MIB, "after_trim_bytes": 59 * MIB,
    }  # fmt: skip
    text = printed(state_of(functions, functions, probe, end()))
    assert "train.py:f" in text
    assert "+60.0 MiB" in text
    assert "gc.collect() freed 1,234 objects and gave back 40.0 MiB" in text
    assert "malloc_trim(0) gave back 1.0 MiB" in text
    quiet = printed(state_of(probe | {"after_collect_bytes": 100 * MIB, "after_trim_bytes": None}))
    assert "gc.collect" not in quiet


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (end(), "ended after 41 s"),
        (end(exit_code=3), "ended after 41 s with exit code 3"),
        (end(exit_code=None, signal=15), "was ended by SIGTERM after 41 s"),
        (end(exit_code=None, signal=60), "was ended by signal 60 after 41 s"),
    ],
)
def test_how_it_ended(event: dict[str, Any], text: str) -> None:
    assert how_it_ended(state_of(event)) == text


def test_a_recording_without_an_end_says_so() -> None:
    assert "the recording stops here" in printed(state_of(*leaking_run(2)))


def test_a_run_that_ended_at_once_is_one_line() -> None:
    assert len(printed(state_of(end(0.1, exit_code=1))).splitlines()) == 1


# ---- killed by the kernel -------------------------------------------------------------------


def test_a_root_that_the_kernel_killed() -> None:
    state = state_of(*leaking_run(10), end(exit_code=None, signal=9, killed_by_kernel=True))
    kill = kernel_kill(state)
    assert kill is not None
    assert (kill.pid, kill.resident_bytes) == (PID, 260 * MIB)
    assert kill.largest[0] == ("variables/trainer.envs", 200 * MIB)
    assert kill.grew_last == ("variables/trainer.envs", 16 * MIB)
    text = printed(state)
    first = "was killed by the kernel for memory after 41 s, at 290.0 MiB of 1.0 GiB; what grew"
    assert first in " ".join(text.splitlines()[:2])
    assert "the kernel killed it for memory" in text
    assert f"pid {PID} (python train.py --seed 3) held 260.0 MiB" in text
    assert "variables/trainer.envs 200.0 MiB" in text
    assert "variables/trainer.envs grew last: +16.0 MiB in 4 s" in text


def test_a_worker_that_the_kernel_killed() -> None:
    state = state_of(
        process(PID, "python train.py"),
        process(PID + 1, "python worker", PID),
        process(PID + 2, "python other", PID),
        sample(1, {PID: 50 * MIB, PID + 1: 900 * MIB, PID + 2: MIB}),
        {"event": "process-end", "t": 2, "pid": PID + 1},
        {"event": "process-end", "t": 2, "pid": PID + 2},
        end(3, exit_code=1, killed_by_kernel=True),
    )
    kill = kernel_kill(state)
    assert kill is not None
    assert (kill.pid, kill.command, kill.resident_bytes) == (PID + 1, "python worker", 900 * MIB)
    assert "pid 701 (python worker) held 900.0 MiB" in printed(state)


def test_a_death_by_sigkill_that_was_not_the_kernels_is_not_blamed_on_it() -> None:
    state = state_of(*leaking_run(3), end(exit_code=None, signal=9, killed_by_kernel=False))
    assert kernel_kill(state) is None
    assert "kernel" not in printed(state)


def test_a_kill_that_nobody_saw_coming_is_still_told() -> None:
    state = state_of(end(exit_code=None, signal=9, killed_by_kernel=True))
    assert "the kernel killed it for memory" in printed(state)


# ---- looks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_too_wide(width: int) -> None:
    text = printed(state_of(*leaking_run(10), end()), width)
    assert max(map(cell_len, text.splitlines())) <= width


def test_text_of_strangers_stays_text() -> None:
    nasty = "[bold red]x[/]\x1b[31m\x07\r\n"
    state = state_of(
        process(PID, nasty),
        sample(0, {PID: 5 * MIB}),
        snapshot(1, statement({nasty: 2 * MIB}, rss_bytes=5 * MIB), label=nasty, generation=0),
        snapshot(2, statement({nasty: 9 * MIB}, rss_bytes=9 * MIB), label=nasty, generation=1,
                 counts={nasty: 5}, containers=[{"path": nasty, "length": 3}]),
        {"event": "phase", "t": 3, "pid": PID, "name": nasty, "generation": 1, "before_bytes": 0,
         "after_bytes": MIB},
        {"event": "note", "t": 3, "text": nasty},
        {"event": "expectation", "t": 3, "type": nasty, "expected": 1, "found": 2,
         "paths": [nasty]},
        {"event": "pressure", "t": 3, "usage_bytes": 1, "limit_bytes": 2, "action": nasty},
        {"event": "functions", "t": 3, "growth_bytes": {nasty: 5 * MIB}},
        end(exit_code=None, signal=9, killed_by_kernel=True),
        header={"command": [nasty], "limit": {"bytes": MIB, "source": nasty}},
    )  # fmt: skip
    text = printed(state)
    assert "[bold red]x[/]" in text
    assert not {"\x1b", "\x07", "\r"} & set(text)


def test_it_can_be_printed_where_only_ascii_can() -> None:
    assert "ended after" in printed(state_of(*leaking_run(3), end()), encoding="ascii")


def test_the_json_document() -> None:
    state = state_of(*leaking_run(10), end(exit_code=None, signal=9, killed_by_kernel=True))
    document = run_document(state, "x.ledger.jsonl")
    assert document["schema"] == "ramledger.run/1"
    assert (document["exit_code"], document["signal"]) == (None, 9)
    assert document["killed_by_kernel"]["grew_last"] == "variables/trainer.envs"
    assert document["growth_bytes_per_generation"] == 16 * MIB
    assert document["generations"] == 9
    assert document["statement"]["rss_bytes"] == 260 * MIB
    assert document["growth"]["rss_growth_bytes"] == 144 * MIB
    assert [row["name"] for row in document["phases"]] == ["evaluate", "train"]
    empty = run_document(RunState(), "x")
    assert (empty["statement"], empty["growth"], empty["generations"]) == (None, None, None)
