"""Lists that forked workers copy by reading them."""

from dataclasses import replace
from typing import Any

import pytest

from ramledger.diagnose.copied_lists import ForkedWorker, copied_lists, copied_now
from ramledger.event_parts import ContainerContent
from ramledger.ledger import Statement
from ramledger.units import MIB

ROWS = ContainerContent(
    "train():data.rows", "list", 600_000, "tuple", 115 * MIB,
    added_in=("train.py:7 in Rows.__init__: self.rows = [(i, i / 7) for i in range(n)]",),
)  # fmt: skip
WORKERS = [ForkedWorker(1, 133 * MIB), ForkedWorker(2, 137 * MIB)]


def test_the_line_in_the_users_own_names() -> None:
    found = copied_lists([ROWS], WORKERS)
    assert found is not None
    assert found.saves_bytes == 2 * 115 * MIB
    assert found.at_most
    assert "2 forked workers have 135.0 MiB of shared pages copied, each" in found.why
    assert "train():data.rows has 600,000 × tuple, 115.0 MiB" in found.why
    assert found.do[0] == "train.py:7: self.rows = np.array([(i, i / 7) for i in range(n)])"


def test_a_list_that_is_appended_to() -> None:
    line = "train.py:9 in load: rows.append(row)"
    found = copied_lists([replace(ROWS, added_in=(line,))], WORKERS)
    assert found is not None
    assert found.do[0] == "where data.rows is filled: data.rows = np.array(data.rows)"


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ("str", "self.rows = np.array([(i, i / 7) for i in range(n)], dtype='U')"),
        ("dict", "one array a key"),
        ("float", "self.rows = np.array("),
    ],
)
def test_other_elements(of: str, text: str) -> None:
    found = copied_lists([replace(ROWS, of=of)], WORKERS)
    assert found is not None
    assert text in found.do[0]


@pytest.mark.parametrize(
    "change",
    [
        {"of": "numpy.ndarray"},  # the data of arrays has no reference count
        {"length": 200},
        {"bytes": 50 * MIB},  # something else is copied, too
    ],
)
def test_what_does_not_explain_it_is_not_named(change: dict[str, Any]) -> None:
    assert copied_lists([replace(ROWS, **change)], WORKERS) is None


def test_workers_that_copy_nothing() -> None:
    assert copied_lists([ROWS], []) is None
    assert copied_lists([ROWS], [ForkedWorker(1, 3 * MIB)]) is None


def test_only_children_that_were_forked_count() -> None:
    container = {"path": "data", "type": "list", "length": 600_000, "of": "tuple"}
    facts = {"containers": [container | {"bytes": 115 * MIB, "account": "", "capacity": None}]}
    child = Statement(2, "python train.py", 0.0, 0, (), uss_bytes=140 * MIB)
    parent = Statement(1, "python train.py", 0.0, 0, (), facts=facts, children=(child,))
    assert copied_now(parent)
    other = replace(child, command="python -c from multiprocessing.spawn import spawn_main")
    assert not copied_now(replace(parent, children=(other,)))
