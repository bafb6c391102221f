"""Metrics as text: labels, addresses, and what the dashboard asks for."""

import json
import re
import sys
from pathlib import Path

import pytest

from ramledger.cli.metrics_endpoint import parse_address
from ramledger.errors import ConfigError
from ramledger.events import Header
from ramledger.report.json.openmetrics import openmetrics
from ramledger.run.model import Run
from tests.support.places import ROOT


def test_labels_are_escaped() -> None:
    run = Run(Header(command=("python", 'a"b\\c\nd')))
    (line,) = [x for x in openmetrics(run).splitlines() if x.startswith("ramledger_run_info")]
    assert line == 'ramledger_run_info{command="python a\\"b\\\\c?d"} 1'


def test_addresses() -> None:
    assert parse_address(":9464") == ("127.0.0.1", 9464)
    assert parse_address("0.0.0.0:1") == ("0.0.0.0", 1)
    assert parse_address("[::1]:80") == ("::1", 80)
    for bad in ("9464x", ":", ":70000", "host"):
        with pytest.raises(ConfigError):
            parse_address(bad)


def test_the_dashboard_asks_for_metrics_that_are_there() -> None:
    docs = ROOT / "docs"
    dashboard = json.loads((docs / "grafana.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"ramledger_\w+", target["expr"])
    }
    source = Path(sys.modules[openmetrics.__module__].__file__ or "").read_text()
    page = (docs / "monitoring.md").read_text()
    assert asked
    assert all(f'"{name}"' in source and f"`{name}`" in page for name in asked)
