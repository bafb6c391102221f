"""Arrow's memory has an owner, although no Python object refers to it."""

import pytest

from tests.support.held_program import observe

pytest.importorskip("pyarrow")


def test_columns_of_a_table_are_booked_to_it_once() -> None:
    seen = observe("arrow_table", "bare")
    for column in ("price", "size"):
        (entry,) = (e for e in seen.statement.entries if e.account.endswith(f"table['{column}']"))
        assert entry.reserved_bytes == pytest.approx(seen.truth[column], rel=0.01)
    assert not seen.statement.total("variables/arrow_table.py:main.store.recent")
    large = {item.path.rpartition(".")[2]: item for item in seen.statement.large_objects}
    assert large["table['price']"].type == "pyarrow.lib.Buffer"


def test_batches_made_one_after_the_other_all_count() -> None:
    seen = observe("arrow_table", "bare")
    booked = sum(e.reserved_bytes for e in seen.statement.entries if ".batches" in e.account)
    assert booked == pytest.approx(seen.truth["batches"], rel=0.02)
