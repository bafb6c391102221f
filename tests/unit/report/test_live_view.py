"""The live view: it fits, says what matters first, and shows strangers' text as text."""

import pytest
from rich.cells import cell_len
from rich.console import Console, Group

from ramledger.diagnose.live_judge import Judgement, LiveJudge
from ramledger.events import CurrentPhaseEvent, Header, NoteEvent, PhaseEvent, PressureEvent
from ramledger.ledger import Limit
from ramledger.report.terminal.growth_words import time_left_text
from ramledger.report.terminal.live_view import live_lines
from ramledger.run.model import Run
from ramledger.run.time_left import TimeLeft
from tests.support.report_events import (
    MIB,
    PID,
    generation,
    leaking_run,
    process,
    run_of,
    sample,
    snapshot,
    statement,
)


def text_of(run: Run, width: int = 80, height: int = 18) -> str:
    return shown(run, LiveJudge(run).refresh(), width, height)


def shown(run: Run, now: Judgement, width: int = 80, height: int = 18) -> str:
    return "\n".join(line.plain for line in live_lines(run, width, height, now))


def leaking(generations: int = 12) -> Run:
    return run_of(*leaking_run(generations), keep_events=True)


@pytest.mark.parametrize("width", [40, 60, 72, 79, 80, 100, 132, 250])
@pytest.mark.parametrize("height", [3, 5, 8, 12, 18, 40])
def test_it_fits(width: int, height: int) -> None:
    run = leaking()
    lines = live_lines(run, width, height, LiveJudge(run).refresh())
    assert 3 <= len(lines) <= height
    assert all(line.cell_len <= width and "\n" not in line.plain for line in lines)


@pytest.mark.parametrize("width", [60, 80])
def test_what_matters_is_there_at_60_and_at_80_columns(width: int) -> None:
    text = text_of(leaking(), width)
    for part in (
        "train.py", "iteration 11", "48 s", "(limit 1.0 GiB", "peak 322.0 MiB",
        "growing 16.0 MiB an iteration: trainer.envs", "18 TradingEnvironment instead of 2",
        "variables/trainer.envs", "232.0 MiB", "replay/observations", "evaluate", "train",
    ):  # fmt: skip
        assert part in text, part


def test_a_wide_view_adds_share_history_fill_and_children() -> None:
    text = text_of(leaking(), 100)
    envs = next(line for line in text.splitlines() if line.startswith("variables/"))
    replay = next(line for line in text.splitlines() if line.startswith("replay/"))
    assert "79.5%" in envs  # 232 of 292 MiB
    assert envs.split()[-1:] == ["MiB"] and "+176.0" in envs
    assert "█" in envs
    assert "50% full" in replay
    assert "python worker" in text
    assert str(PID + 2) in text


def test_the_rows_sum_to_the_statement() -> None:
    accounts = {f"account{n}": (30 - n) * MIB for n in range(30)}
    document = statement(accounts, rss_bytes=600 * MIB)
    run = run_of(sample(0, {PID: 600 * MIB}), snapshot(1, document))
    lines = text_of(run, 80, 12).splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("account "))
    sizes = [float(line[28:].split()[0]) for line in lines[begin + 1 :]]
    assert "smaller accounts" in lines[-2]
    assert lines[-1].startswith("unexplained")
    assert sum(sizes) == 600


def test_the_age_of_the_statement_is_said() -> None:
    run = run_of(*leaking_run(2), sample(60, {PID: 200 * MIB}))
    assert "account (measured 52 s ago)" in text_of(run, 100)
    assert "account, 52 s ago" in text_of(run, 60)


def test_before_the_first_statement_processes_are_shown() -> None:
    run = run_of(process(PID, "python train.py"), sample(0, {PID: 20 * MIB}))
    text = text_of(run)
    assert "run 20.0 MiB (limit 1.0 GiB, --limit)" in text
    assert "starting" in text
    assert f"{PID}    20.0 MiB" in text


def test_an_empty_state_has_a_view() -> None:
    assert len(live_lines(Run(), 80)) == 3


def test_with_little_room_children_are_one_line_and_phases_are_left_out() -> None:
    text = text_of(leaking(), 80, 8)
    assert "2 more processes: 30.0 MiB" in text
    assert "evaluate  " not in text


def test_without_a_limit_there_is_a_history_instead() -> None:
    text = text_of(run_of(*leaking_run(12), header=Header(command=("x",)), keep_events=True), 100)
    assert "growing 16.0 MiB an iteration: trainer.envs" in text
    assert "limit" not in text
    assert "█" in text.splitlines()[1]


def test_colors_follow_the_limit() -> None:
    styles = []
    for level in (100, 800, 1000):
        line = live_lines(run_of(sample(0, {PID: level * MIB})), 80)[1]
        styles.append(
            next(str(span.style).split()[0] for span in line.spans if " on " in str(span.style))
        )
    assert styles == ["green", "yellow", "red"]


def test_pressure_comes_before_anything_else() -> None:
    event = PressureEvent(t=50, usage_bytes=990 * MIB, limit_bytes=1024 * MIB, action="checkpoint")
    run = run_of(*leaking_run(3), event)
    assert "! saving a checkpoint: 990.0 MiB of 1.0 GiB used" in text_of(run)


def test_text_of_strangers_stays_text() -> None:
    nasty = "[bold red]x[/] [link=http://x]\x1b[31m\x1b]0;title\x07\n\u202e" + "名" * 90
    document = statement({nasty: 50 * MIB}, rss_bytes=60 * MIB)
    run = run_of(
        process(PID, nasty), process(PID + 1, nasty), sample(0, {PID: 60 * MIB, PID + 1: MIB}),
        snapshot(1, document), generation(2, 1, MIB),
        CurrentPhaseEvent(t=3, pid=PID, generation=2, phase=nasty),
        NoteEvent(t=3, text=nasty),
        PhaseEvent(t=3, pid=PID, name=nasty, generation=1, before_bytes=0, after_bytes=MIB),
        header=Header(command=(nasty,), limit=Limit(100 * MIB, nasty)),
    )  # fmt: skip
    console = Console(width=80, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(Group(*live_lines(run, 80)))
    shown = captured.get()
    assert "[bold red]x[/]" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert all(cell_len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (TimeLeft(720, 540, 1080, ""), "limit in 12 min (9 min to 18 min)"),
        (TimeLeft(720, 540, None, ""), "limit in 12 min (9 min at least)"),
        (TimeLeft(720, None, None, ""), "limit in 12 min"),
        (TimeLeft(0, 0, 0, ""), "the limit is reached"),
        (TimeLeft(0, 0, 5, ""), "the limit is near"),
        (TimeLeft(None, None, None, "not growing"), "not growing"),
    ],
)
def test_time_left_is_said_with_its_doubt(found: TimeLeft, text: str) -> None:
    assert time_left_text(found) == text
