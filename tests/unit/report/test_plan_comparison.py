"""Plan and measured side by side."""

import json
from pathlib import Path
from typing import Any

import pytest

from ramledger.errors import ConfigError
from ramledger.report.html.page_data import page_data
from ramledger.report.plan_comparison import read_plan, with_plan
from tests.support.report_events import MIB, leaking_run, recording_of

PLAN: dict[str, Any] = {
    "schema": "ramledger.plan/1",
    "peak_bytes": 232 * MIB,
    "accounts": [
        {"account": "replay", "bytes": 80 * MIB, "formula": "10 x 8 MiB"},
        {"account": "optimizer", "bytes": 5 * MIB, "formula": "2 x parameters"},
    ],
}


def test_each_planned_row_has_the_most_that_was_measured_below_it() -> None:
    plan = with_plan(page_data(recording_of(leaking_run()), None), PLAN)["plan"]
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
    page = page_data(recording_of(leaking_run()), None)
    with pytest.raises(ConfigError, match="plan") as caught:
        with_plan(page, read_plan(str(path)))
    assert caught.value.hint


def test_a_plan_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    assert read_plan(str(path)) == PLAN
    with pytest.raises(ConfigError, match="cannot read"):
        read_plan(str(tmp_path / "none.json"))
