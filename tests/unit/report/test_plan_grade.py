"""Plan and measured side by side."""

import json
from pathlib import Path
from typing import Any

import pytest

from ramledger.errors import ConfigError
from ramledger.event_parts import Plan, PlannedAccount, PlannedRam
from ramledger.events import PlanEvent
from ramledger.report.html.page_data import page_data
from ramledger.report.plan_grade import graded, read_plan, with_plan
from tests.support.report_events import MIB, leaking_run, recorded, run_of

PLAN: dict[str, Any] = {
    "schema": "ramledger.plan/1",
    "peak_bytes": 232 * MIB,
    "accounts": [
        {"account": "replay", "bytes": 80 * MIB, "formula": "10 x 8 MiB"},
        {"account": "optimizer", "bytes": 5 * MIB, "formula": "2 x parameters"},
    ],
}


def planned(account: str, size: int, *, transient: bool = False) -> PlannedAccount:
    return PlannedAccount(
        account, size, size // 2, 2 * size, where="main process", transient=transient
    )


def test_a_run_grades_families_that_both_sides_know() -> None:
    plan = Plan(
        PlannedRam(232 * MIB, 200 * MIB, 300 * MIB),
        (
            planned("replay/observations", 30 * MIB),
            planned("replay/actions", 10 * MIB),
            planned("replay/second copy", 40 * MIB, transient=True),
            planned("rollout/observations", MIB),
        ),
    )
    rows = graded(run_of(*leaking_run(), PlanEvent(plan=plan, t=0.1)))
    assert [(row.account, row.planned_bytes, row.measured_bytes, row.verdict) for row in rows] == [
        ("replay", 40 * MIB, 40 * MIB, "close"),
        ("peak of all processes", 232 * MIB, 290 * MIB, "in range"),
    ]


def test_a_run_without_a_plan_has_no_grade() -> None:
    assert graded(run_of(*leaking_run())) == ()


def test_each_planned_row_has_the_most_that_was_measured_below_it() -> None:
    plan = with_plan(page_data(recorded(leaking_run()), None), PLAN)["plan"]
    assert [(row["account"], row["planned"], row["measured"]) for row in plan["rows"]] == [
        ("replay", 80 * MIB, 40 * MIB),
        ("optimizer", 5 * MIB, None),
    ]
    # 260 MiB and two workers with 30 against 232
    assert plan["grade"] == "the peak was 25% above the plan"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", '{"schema": "ramledger.plan/2"}', '{"schema": "ramledger.plan/1"}',
        "[" * 100_000,
        '{"schema": "ramledger.plan/1", "accounts": [], "peak_bytes": Infinity}',
        '{"schema": "ramledger.plan/1", "accounts": 5, "peak_bytes": 1}',
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    page = page_data(recorded(leaking_run()), None)
    with pytest.raises(ConfigError, match="plan") as caught:
        with_plan(page, read_plan(str(path)))
    assert caught.value.hint


def test_a_plan_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    assert read_plan(str(path)) == PLAN
    with pytest.raises(ConfigError, match="cannot read"):
        read_plan(str(tmp_path / "none.json"))
