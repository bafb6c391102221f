"""Which tests may not run beside others: all in folders that measure memory or time."""

from pathlib import Path

import pytest

MEASURING = {"measure", "inside", "account", "accuracy", "scenarios", "peers"}
TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if TESTS in item.path.parents and item.path.relative_to(TESTS).parts[0] in MEASURING:
            item.add_marker(pytest.mark.serial)
