"""Verdict, growth table, heat map, summary and page say the same numbers of one run."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ramledger.cli.diagnose import diagnose as diagnose_command
from ramledger.cli.report import report as report_command
from ramledger.diagnose.finding import Diagnosis
from ramledger.diagnose.verdict import diagnose
from ramledger.events import Event, GenerationEvent, PhaseEvent
from ramledger.report.growth_captions import growth_rows, table_caption
from ramledger.report.html.page_data import page_data, page_documents
from ramledger.run.model import Run
from ramledger.run.timeline import build_timeline
from tests.support.made_up_recordings import generations, phases, recording
from tests.support.made_up_recordings import sample as outside
from tests.support.report_events import (
    MIB,
    leaking_run,
    lines_of,
    recorded,
    run_end,
    sample,
    snapshot,
    statement,
)

Json = pytest.CaptureFixture[str]


def written(folder: Path, name: str, events: Iterable[Event]) -> str:
    path = folder / f"{name}.ledger.jsonl"
    path.write_text(lines_of(events))
    return str(path)


def printed(capture: Json) -> Any:
    return json.loads(capture.readouterr().out)


def flat_run(count: int = 10) -> list[Event]:
    """The same program after the fix."""
    events: list[Event] = []
    for number in range(count):
        t = 4.0 * number
        events += [sample(t + step / 2, {700: 116 * MIB}) for step in range(8)]
        events.append(
            GenerationEvent(
                t=t + 3.9, pid=700, generation=number, rss_bytes=116 * MIB, anon_bytes=116 * MIB
            )
        )
        held = {"variables/trainer.envs": 16 * MIB, "replay/observations": 40 * MIB}
        events.append(snapshot(t + 3.95, statement(held, rss_bytes=116 * MIB), generation=number))
    return events


# ---- the page and `diagnose --json` ------------------------------------------------------------


def test_the_page_has_the_very_document_of_diagnose(tmp_path: Path, capsys: Json) -> None:
    path = written(tmp_path, "run", [*leaking_run(), run_end()])
    assert diagnose_command(path, json=True) == 3
    verdict = printed(capsys)
    report_command(path, json=True)
    page = printed(capsys)
    assert page["verdict"] == verdict
    assert verdict["growth"]
    assert verdict["forecast"]["limit_generation"]


def test_the_page_and_diagnose_compare_alike(tmp_path: Path, capsys: Json) -> None:
    before = written(tmp_path, "before", leaking_run())
    fixed = written(tmp_path, "fixed", flat_run())
    diagnose_command(fixed, compare=before, json=True)
    comparison = printed(capsys)["comparison"]
    report_command(before, fixed, json=True)
    first, second = printed(capsys)
    assert "comparison" not in first
    assert second["comparison"] == comparison
    assert comparison["change"] == "fixed"
    assert comparison["before_rate"]["bytes_per_generation"] == 16 * MIB
    envs = next(o for o in comparison["owners"] if o["account"] == "variables/trainer.envs")
    rate = envs["before_rate"]["bytes_per_generation"]
    assert rate == pytest.approx(16 * MIB, rel=0.01)
    low, high = envs["before_rate"]["interval_bytes"]
    assert low <= rate <= high
    assert envs["after_rate"]["bytes_per_generation"] == 0


def test_rows_sum_to_the_growth_of_rss() -> None:
    found = diagnose(recorded(leaking_run())).to_dict()
    total = found["growth_total"]
    assert sum(line["growth_bytes"] for line in found["growth"]) == total["growth_bytes"]
    # the first snapshot is from 50 ms, an eightieth of a generation, after the first point
    assert total["growth_bytes"] == round((9 - 1 / 80) * 16 * MIB)
    assert found["growth_span"] == [0.0, 9.0]


def test_the_owner_of_a_leak_grows_in_the_table_as_the_verdict_says() -> None:
    found = diagnose(recorded(leaking_run()))
    (leak,) = found.leaks
    line = next(one for one in found.growth if one.account == "variables/trainer.envs")
    assert leak.bytes_per_generation == 16 * MIB
    assert line.bytes_per_generation == pytest.approx(16 * MIB, rel=0.01)
    assert line.onset_generation == leak.onset_generation == 0


def test_without_generations_the_table_is_per_minute_as_the_verdict_is() -> None:
    levels = [100 + 2.0 * n for n in range(120)]  # MiB, a sample a second
    found = diagnose(recording(*(outside(float(t), {7: level}) for t, level in enumerate(levels))))
    (leak,) = found.leaks
    assert found.growth_total is not None
    assert leak.per == found.growth_total.per == "minute"
    assert found.growth_total.bytes_per_generation == pytest.approx(120 * MIB, rel=0.05)
    assert leak.bytes_per_generation == pytest.approx(120 * MIB, rel=0.05)
    assert found.growth_total.onset_generation is None
    assert found.growth_span is not None
    assert found.growth_span[1] - found.growth_span[0] > 100  # seconds
    assert "generation" not in table_caption(found)


def test_a_run_that_is_over_has_the_forecast_of_its_verdict() -> None:
    run = recorded([*leaking_run(), run_end()])
    found = diagnose(run)
    page = page_data(run, found)
    assert found.outlook is not None
    reached = found.outlook.limit_generation
    assert reached is not None
    assert page["outlook"]["seconds_left"] == pytest.approx((reached - 9) * 4.0)
    assert f"iteration {reached}" in page["outlook"]["reason"]


# ---- the heat map ------------------------------------------------------------------------------


def heat_of(run: Run) -> tuple[dict[str, Any], Diagnosis]:
    diagnosis = diagnose(run)
    heat = page_documents([run])[0]["growth"]["heat"]
    return heat, diagnosis


def two_phases(gap: float = 0.5) -> Run:
    """`train` fills nothing, `evaluate` leaks 4 MiB, and `gap` MiB appear between phases."""
    count = 16
    grown = {"evaluate": [4.0] * count, "train": [0.0] * count}
    levels = [100 + (4 + gap) * n for n in range(count)]
    return recording(*phases(grown), *generations(levels))


def test_phases_and_the_time_between_them_sum_to_the_growth_of_rss() -> None:
    run = two_phases()
    heat, _ = heat_of(run)
    points = build_timeline(run).points
    grown = points[-1].anon_bytes - points[0].anon_bytes
    after_first = sum(sum(row[1:]) for row in heat["cells"])
    assert after_first == grown == 15 * 4.5 * MIB
    by_name = dict(zip(heat["rows"], heat["cells"], strict=True))
    assert by_name["evaluate"] == [4 * MIB] * 16
    assert by_name["between phases"] == [0, *[MIB // 2] * 15]
    assert "+67.5 MiB" in heat["caption"]


def test_long_runs_are_summed_into_fewer_columns_and_still_sum() -> None:
    count = 500
    grown = {"evaluate": [1.0] * count}
    run = recording(*phases(grown), *generations([100 + 1.25 * n for n in range(count)]))
    heat, _ = heat_of(run)
    assert len(heat["columns"]) <= 120
    assert sum(map(sum, heat["cells"])) == (1.25 * (count - 1) + 1) * MIB


def test_more_phases_than_rows_are_one_row_that_keeps_the_sum() -> None:
    count = 8
    grown = {f"phase {n:02}": [float(1 + n)] * count for n in range(20)}
    step = sum(1 + n for n in range(20))
    heat, _ = heat_of(recording(*phases(grown), *generations([step * n for n in range(count)])))
    assert len(heat["rows"]) == 17
    assert heat["rows"][-1] == "other phases, and between"
    assert sum(sum(row[1:]) for row in heat["cells"]) == (count - 1) * step * MIB


def test_the_phase_that_the_verdict_names_is_marked() -> None:
    heat, diagnosis = heat_of(two_phases())
    (leak,) = diagnosis.leaks
    assert leak.phase == "evaluate"
    assert heat["rows"][heat["culprit"]] == leak.phase
    assert "The verdict's rate, 4.5 MiB an iteration" in heat["caption"]


def test_nothing_is_marked_without_a_leak() -> None:
    count = 16
    run = recording(*phases({"evaluate": [0.0] * count}), *generations([100.0] * count))
    heat, diagnosis = heat_of(run)
    assert not diagnosis.leaks
    assert heat["culprit"] is None
    assert "verdict" not in heat["caption"]


def test_growth_by_phase_is_the_same_in_the_summary_and_in_the_heat_map() -> None:
    events = [
        PhaseEvent(
            t=float(n), pid=700, name="rollout", generation=n, passes=8, measured_passes=2,
            growth_bytes=MIB,
        )
        for n in range(8)
    ]  # fmt: skip
    levels = [GenerationEvent(t=n + 0.5, pid=700, generation=n, anon_bytes=MIB) for n in range(8)]
    run = recorded([*events, *levels])
    (total,) = run.iterations.phases(700)
    heat, _ = heat_of(run)
    assert total.growth_bytes == sum(heat["cells"][0]) == 8 * 4 * MIB


# ---- in a terminal -----------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, 1, 2, 20])
def test_rows_in_a_terminal_are_folded_and_lose_nothing(most: int) -> None:
    found = diagnose(recorded(leaking_run()))
    heads, rows = growth_rows(found, most)
    assert heads[2] == "an iteration"
    assert rows[-1][:3] == ("RSS", "+143.8 MiB", "+16.0 MiB")
    assert len(rows) <= most + 3
    shares = [float(row[3].rstrip("%")) for row in rows[:-1]]
    assert sum(shares) == pytest.approx(100.0, abs=0.3)
